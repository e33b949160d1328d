"""The analytics in plain Python: what Spark's results must be equal to."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import permutations
from typing import NamedTuple

from ithaca.apps.marketplace.activity import Activity

RECOMMENDED = 3
"""So many other products are recommended beside each."""


class Analytics(NamedTuple):
    """The tables of results, each in the order of its rows."""

    visitors: list[tuple[int, int]]
    """Hour, visitors that were seen in it."""
    sales: list[tuple[int, int, int]]
    """Product, how often it was viewed, how often bought."""
    recommendations: list[tuple[int, int, int, int]]
    """Product, rank, another product, orders that have both."""


def analyse(activities: Iterable[Activity]) -> Analytics:
    """Visitors by hour, sales by product, and what is bought together most often."""
    visitors: dict[int, set[str]] = defaultdict(set)
    actions: Counter[tuple[int, str]] = Counter()
    orders: dict[int, set[int]] = defaultdict(set)
    for each in activities:
        visitors[each.at_s // 3600].add(each.visitor)
        actions[each.product, each.action] += 1
        if each.action == "buy":
            orders[each.order_id].add(each.product)
    products = sorted({product for product, _ in actions})
    return Analytics(
        visitors=[(hour, len(visitors[hour])) for hour in sorted(visitors)],
        sales=[(product, actions[product, "view"], actions[product, "buy"]) for product in products],
        recommendations=recommend(orders.values()),
    )


def recommend(orders: Iterable[set[int]]) -> list[tuple[int, int, int, int]]:
    """For each product those that most orders have beside it; of equals the one with the smaller number.

    >>> recommend([{1, 2}, {1, 2, 3}, {4}])
    [(1, 1, 2, 2), (1, 2, 3, 1), (2, 1, 1, 2), (2, 2, 3, 1), (3, 1, 1, 1), (3, 2, 2, 1)]
    """
    together: Counter[tuple[int, int]] = Counter()
    for order in orders:
        together.update(permutations(order, 2))
    beside: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for (product, other), count in together.items():
        beside[product].append((-count, other))
    return [
        (product, rank, other, -negative)
        for product in sorted(beside)
        for rank, (negative, other) in enumerate(sorted(beside[product])[:RECOMMENDED], 1)
    ]
