"""The rules in Spark, for one micro-batch: what is known of the users, and the payments that came since.

And `hourly`, which finalized shards are asked afterwards.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from ithaca.apps.fraud.plain import DEVIATIONS, PAYMENTS_MIN, TRAVEL_S

STATE = "user string, payments long, total long, squares decimal(38,0), country string, at_s int"
WIDE = "decimal(38,0)"
"""For sums of squares and their products, which 64 bits do not hold."""


def judge(payments: DataFrame, states: DataFrame) -> DataFrame:
    """Payments with what was known before each (`known_…`), the reason for an alert, and the user's state after it."""
    order = Window.partitionBy("user").orderBy("position")
    before = order.rowsBetween(Window.unboundedPreceding, -1)
    known = states.select("user", *(sf.col(name).alias(f"known_{name}") for name in states.columns if name != "user"))
    amount = sf.col("amount_cents").cast(WIDE)
    joined = payments.join(sf.broadcast(known), "user", "left")
    running = joined.withColumns(
        {
            "n": _known("payments") + sf.count("*").over(before),
            "s": _known("total") + sf.coalesce(sf.sum("amount_cents").over(before), sf.lit(0)),
            "q": (_known("squares") + sf.coalesce(sf.sum(amount * amount).over(before), sf.lit(0))).cast(WIDE),
            "last_country": sf.coalesce(sf.lag("country").over(order), "known_country"),
            "last_at_s": sf.coalesce(sf.lag("at_s").over(order), "known_at_s"),
        }
    )
    return running.withColumn("reason", _reason())


def by_user(judged: DataFrame) -> DataFrame:
    """For each user that paid: the state after the last payment, the alerts, and how much was judged, up to where.

    All in one pass, so that a micro-batch is one job.
    """
    amount = sf.col("amount_cents").cast(WIDE)
    state = sf.struct(
        "user",
        (sf.col("n") + 1).alias("payments"),
        (sf.col("s") + sf.col("amount_cents")).alias("total"),
        (sf.col("q") + amount * amount).cast(WIDE).alias("squares"),
        "country",
        "at_s",
    )
    alert = sf.when(sf.col("reason") != "", sf.struct("position", "user", "amount_cents", "country", "reason"))
    return judged.groupBy("user").agg(
        sf.max_by(state, "position").alias("state"),
        sf.collect_list(alert).alias("alerts"),
        sf.count("*").alias("records"),
        sf.max("position").alias("last_position"),
        sf.unix_micros(sf.max("timestamp")).alias("newest_us"),
    )


def hourly(payments: DataFrame) -> DataFrame:
    """As `plain.Hourly`s, from payments as columns."""
    hour = sf.expr("at_s DIV 3600").alias("hour")
    sums = (
        sf.count("*").alias("payments"),
        sf.count_distinct("user").alias("users"),
        sf.sum("amount_cents").alias("cents"),
    )
    return payments.groupBy(hour).agg(*sums).orderBy("hour")


def _known(name: str) -> Column:
    return sf.coalesce(sf.col(f"known_{name}"), sf.lit(0))


def _reason() -> Column:
    n, s, q, amount = (sf.col(name).cast(WIDE) for name in ("n", "s", "q", "amount_cents"))
    above = n * amount - s
    limit = sf.lit(DEVIATIONS * DEVIATIONS).cast(WIDE) * (n * q - s * s)
    is_much = (sf.col("n") >= PAYMENTS_MIN) & (above > 0) & (above * above > limit)
    apart_s = sf.abs(sf.col("at_s") - sf.col("last_at_s"))
    is_far = (sf.col("country") != sf.col("last_country")) & (apart_s < TRAVEL_S)
    return sf.concat_ws(", ", sf.when(is_much, "amount"), sf.when(is_far, "travel"))
