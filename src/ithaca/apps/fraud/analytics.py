"""What finalized shards are asked: users and turnover by hour, in Spark and in plain Python."""

from collections import defaultdict
from collections.abc import Iterable

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from ithaca.apps.fraud.payments import Payment

Hourly = tuple[int, int, int, int]
"""Hour, payments, users, cents."""


def hourly(payments: DataFrame) -> list[Hourly]:
    """From payments as columns."""
    hour = sf.expr("at_s DIV 3600").alias("hour")
    sums = payments.groupBy(hour).agg(sf.count("*"), sf.count_distinct("user"), sf.sum("amount_cents"))
    return [(row[0], row[1], row[2], row[3]) for row in sums.orderBy("hour").collect()]


def hourly_plain(payments: Iterable[Payment]) -> list[Hourly]:
    """The same from payments as objects."""
    hours: dict[int, list[Payment]] = defaultdict(list)
    for payment in payments:
        hours[payment.at_s // 3600].append(payment)
    return [
        (hour, len(held), len({each.user for each in held}), sum(each.amount_cents for each in held))
        for hour, held in sorted(hours.items())
    ]
