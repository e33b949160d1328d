"""The marketplace's generator repeats itself, and its plain analytics count what they should."""

from collections import Counter

import pytest

from ithaca.apps.marketplace.activity import (
    KINDS,
    SOURCES,
    VISITORS,
    Action,
    Activity,
    activities,
    decode,
    events,
)
from ithaca.apps.marketplace.plain import RECOMMENDED, analyse, recommend
from ithaca.apps.pipelines.events import DAY_S

RECORDS = 3001


def day(seed: int = 1) -> list[Activity]:
    return [each for source in range(SOURCES) for each in activities(seed, source, RECORDS)]


def test_a_seed_gives_the_same_day_and_another_seed_another() -> None:
    assert day() == day()
    assert day() != day(2)
    assert len(day()) == RECORDS


def test_sources_differ_and_keep_time() -> None:
    one, other = (list(activities(1, source, RECORDS)) for source in range(SOURCES))
    assert [each.product for each in one] != [each.product for each in other]
    times = [each.at_s for each in one]
    assert times == sorted(times)
    assert times[0] == 0
    assert DAY_S - 120 < times[-1] < DAY_S


def test_records_are_json_with_the_visitor_as_their_key() -> None:
    for made, (key, value) in zip(activities(1, 0, RECORDS), events(1, 0, RECORDS), strict=True):
        assert decode(value) == made
        assert key == made.visitor.encode()


def test_visitors_buy_only_what_they_had_in_the_cart_and_of_one_kind() -> None:
    carts: dict[tuple[int, str], set[int]] = {}
    kinds: dict[int, set[int]] = {}
    for each in day():
        if each.action == "cart":
            carts.setdefault((each.source, each.visitor), set()).add(each.product)
        if each.action == "buy":
            assert each.product in carts[each.source, each.visitor]
            kinds.setdefault(each.order_id, set()).add(each.product % KINDS)
        assert (each.order_id > 0) == (each.action == "buy")
    assert kinds
    assert all(len(found) == 1 for found in kinds.values())


def test_some_visitors_and_products_are_more_popular() -> None:
    seen = Counter(each.visitor for each in day())
    assert 0.2 * VISITORS > len(seen) > 100
    frequent = sum(count for visitor, count in seen.items() if int(visitor.removeprefix("visitor-")) < VISITORS // 4)
    assert frequent > 0.4 * RECORDS


def activity(at_s: int, visitor: str, action: Action, product: int, order: int = 0) -> Activity:
    return Activity(0, at_s, visitor, action, product, order)


def test_analytics_of_a_few_activities() -> None:
    found = analyse(
        [
            activity(0, "a", "view", 1),
            activity(3599, "a", "view", 2),
            activity(3599, "b", "view", 1),
            activity(3600, "a", "buy", 1, 7),
            activity(3600, "a", "buy", 2, 7),
            activity(9000, "b", "buy", 1, 8),
        ]
    )
    assert found.visitors == [(0, 2), (1, 1), (2, 1)]
    assert found.sales == [(1, 2, 2), (2, 1, 1)]
    assert found.recommendations == [(1, 1, 2, 1), (2, 1, 1, 1)]


def test_recommendations_are_the_most_frequent_and_few() -> None:
    orders = [{1, 5}, {1, 5}, {1, 4}, {1, 3}, {1, 2}]
    of_one = [row for row in recommend(orders) if row[0] == 1]
    assert of_one == [(1, 1, 5, 2), (1, 2, 2, 1), (1, 3, 3, 1)]
    assert len(of_one) == RECOMMENDED


@pytest.mark.parametrize("orders", [[], [{1}], [{1}, {2}]])
def test_nothing_is_recommended_beside_what_is_bought_alone(orders: list[set[int]]) -> None:
    assert recommend(orders) == []
