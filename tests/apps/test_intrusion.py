"""The sensors' generator repeats itself, and the plain rule finds what stands out, exactly."""

from itertools import chain
from statistics import fmean, pstdev

from hypothesis import given
from hypothesis import strategies as st

from ithaca.apps.intrusion.plain import DEVIATIONS, WINDOW, Alert, detect, is_far_above
from ithaca.apps.intrusion.readings import SOURCES, Reading, decode, events, readings

RECORDS = 12_001


def test_a_seed_gives_the_same_readings_and_another_seed_others() -> None:
    one = [list(readings(3, source, RECORDS)) for source in range(SOURCES)]
    assert one == [list(readings(3, source, RECORDS)) for source in range(SOURCES)]
    assert one != [list(readings(4, source, RECORDS)) for source in range(SOURCES)]
    assert sum(map(len, one)) == RECORDS


def test_records_are_json_with_the_group_as_their_key() -> None:
    for made, (key, value) in zip(readings(3, 1, 500), events(3, 1, 500), strict=True):
        assert decode(value) == made.reading
        assert key == made.reading.area.encode()


def test_most_of_what_is_planted_is_found_and_little_else() -> None:
    alternating = chain.from_iterable(
        zip(*(readings(3, source, RECORDS - 1) for source in range(SOURCES)), strict=True)
    )
    made = dict(enumerate(alternating, 1))
    found = {alert.position for alert in detect((position, each.reading) for position, each in made.items())}
    planted = {position for position, each in made.items() if each.is_intrusion}
    assert len(planted) > 10
    assert len(found & planted) > 0.8 * len(planted)
    assert len(found - planted) < 0.2 * len(planted)


@given(st.lists(st.integers(0, 10_000), min_size=WINDOW, max_size=WINDOW), st.integers(0, 100_000))
def test_the_rule_is_the_one_with_means_and_deviations(window: list[int], packets: int) -> None:
    limit = fmean(window) + DEVIATIONS * pstdev(window)
    found = is_far_above(packets, sum(window), sum(each * each for each in window))
    if abs(packets - limit) > 1e-6 * limit:  # floating point cannot tell closer than that
        assert found == (packets > limit)


def reading(packets: int, area: str = "area-00") -> Reading:
    return Reading(0, 1, area, 7, packets)


def test_a_reading_is_judged_by_its_own_group_and_only_by_a_full_window() -> None:
    usual = [reading(100 + number % 2) for number in range(WINDOW)]
    others = [reading(5000, "area-01")] * 3
    early = detect(enumerate([*usual[1:], reading(1000)], 1))
    assert early == []
    found = detect(enumerate([*usual, *others, reading(1000)], 1))
    total, squares = sum(each.packets for each in usual), sum(each.packets**2 for each in usual)
    assert found == [Alert(WINDOW + 4, "area-00", 7, 1000, total, squares)]


def test_the_window_moves() -> None:
    # After a full window at the new level it is the usual one; what came before is forgotten.
    found = detect(enumerate([reading(100)] * WINDOW + [reading(200)] * WINDOW + [reading(200), reading(201)], 1))
    assert found[0].position == WINDOW + 1
    assert found[-1].position == 2 * WINDOW + 2
    assert 2 * WINDOW + 1 not in [alert.position for alert in found]
