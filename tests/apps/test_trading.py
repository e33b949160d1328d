"""Prices repeat themselves; the plain regression agrees with a library's, and pairs prices by the log's order."""

import numpy as np
import pytest

from ithaca.apps.trading.plain import DEVIATIONS, WINDOW, Signal, is_off, signals, slope, sums_of
from ithaca.apps.trading.ticks import PAIRS, SOURCES, Tick, decode, events, ticks

RECORDS = 4001
FIRST, SECOND = PAIRS["pair-1"]


def test_a_seed_gives_the_same_prices_and_another_seed_others() -> None:
    one = [list(ticks(1, source, RECORDS)) for source in range(SOURCES)]
    assert one == [list(ticks(1, source, RECORDS)) for source in range(SOURCES)]
    assert one != [list(ticks(2, source, RECORDS)) for source in range(SOURCES)]
    assert sum(map(len, one)) == RECORDS


def test_each_exchange_quotes_one_stock_of_each_pair() -> None:
    for source in range(SOURCES):
        assert {tick.stock for tick in ticks(1, source, 100)} == {stocks[source] for stocks in PAIRS.values()}


def test_records_are_json_with_the_stock_as_their_key() -> None:
    for made, (key, value) in zip(ticks(1, 1, 500), events(1, 1, 500), strict=True):
        assert decode(value) == made
        assert key == made.stock.encode()


def test_the_stocks_of_a_pair_move_together() -> None:
    both = [
        np.array([tick.price_cents for tick in ticks(1, source, RECORDS) if tick.stock == stock])
        for source, stock in enumerate(PAIRS["pair-2"])
    ]
    shortest = min(map(len, both))
    assert abs(np.corrcoef(both[0][:shortest], both[1][:shortest])[0, 1]) > 0.5


@pytest.mark.parametrize("seed", range(5))
def test_the_line_is_that_of_least_squares(seed: int) -> None:
    random = np.random.default_rng(seed)
    x = random.integers(9_000, 11_000, WINDOW)
    y = (1.7 * x + random.normal(0, 30, WINDOW)).round().astype(int)
    sums = sums_of(zip(x.tolist(), y.tolist(), strict=True))
    (b, a), *_ = np.polyfit(x, y, 1, full=True)
    numerator, denominator = slope(sums)
    assert numerator / denominator == pytest.approx(b)
    deviation = float(np.sqrt(np.mean((y - (a + b * x)) ** 2)))
    for distance, expected in ((DEVIATIONS - 0.1, False), (DEVIATIONS + 0.1, True)):
        for sign in (-1, 1):
            assert is_off(10_000, round(a + b * 10_000 + sign * distance * deviation), sums) == expected


def test_a_price_that_never_moved_has_no_line_to_be_off() -> None:
    assert not is_off(100, 500, sums_of([(100, 200)] * WINDOW))


def test_points_are_made_of_the_last_prices_in_the_order_of_the_log() -> None:
    made = [(1, Tick(0, FIRST, 5)), (2, Tick(0, FIRST, 100)), (3, Tick(1, SECOND, 200))]
    for number in range(WINDOW - 1):
        made.append((4 + number, Tick(number % 2, (FIRST, SECOND)[number % 2], 101 + number)))
    assert signals(made) == []
    shock = (500, Tick(1, SECOND, 9000))
    points = [(100, 200)]
    for _, tick in made[3:]:
        points.append((tick.price_cents, points[-1][1]) if tick.source == 0 else (points[-1][0], tick.price_cents))
    assert signals([*made, shock]) == [Signal(500, "pair-1", points[-1][0], 9000, *slope(sums_of(points)))]


def test_pairs_do_not_mix() -> None:
    other = PAIRS["pair-3"]
    made = [Tick(0, FIRST, 100), Tick(1, SECOND, 100)] * WINDOW
    mixed = [
        tick for pair in zip(made, [Tick(0, other[0], 7), Tick(1, other[1], 99)] * WINDOW, strict=True) for tick in pair
    ]
    assert signals(enumerate(made)) == signals(enumerate(mixed)) == []
