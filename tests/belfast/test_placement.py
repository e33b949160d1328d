"""Batches in slots against a naive model of them, and what makes a primary pass (invariants 1, 2, 9, 11, 12)."""

from hypothesis import given
from hypothesis import strategies as st
from tests.belfast.orders import FIRST, SECOND

from ithaca.engines.belfast.limits import UNPLACED_BATCHES_MAX, UNPLACED_BYTES_MAX
from ithaca.engines.belfast.speculation.placement import Placement
from ithaca.engines.belfast.speculation.placing_events import (
    Acked,
    AskedToPass,
    FreeEnds,
    FreeTold,
    GroupHanded,
    Members,
    Offered,
    OfferRefused,
    Ordered,
    Place,
    PlacingEffect,
    ReportDue,
    Speculators,
    Ticked,
    Watermark,
    WindowTold,
)
from ithaca.engines.belfast.speculation.reports import Ack, Acks
from ithaca.engines.belfast.speculation.windows import Layout, Window

LAYOUTS = (Layout(1, (FIRST,), (2,)), Layout(1, (FIRST, SECOND), (3,)), Layout(2, (FIRST, SECOND), (4,)))


def placement() -> Placement:
    return Placement(SECOND, 1, {0: 1, 1: 1, 2: 1}, 2)


def window(number: int = 1, base: int = 1, first_cut: int = 0, q: int = 4) -> Window:
    return Window(number, base, 3, Layout(1, (FIRST, SECOND), (q,)), 1, first_cut)


def told(core: Placement, *windows: Window) -> None:
    for each in windows:
        share = each.share(core.lane)
        assert share is not None
        core.step(WindowTold(share))


def offer(core: Placement, records: int, size: int = 1) -> list[PlacingEffect]:
    return core.step(Offered("batch", records, size))


def ack(core: Placement, replica: int, length: int) -> list[PlacingEffect]:
    return core.step(Acked(core.lane, Ack(replica, 1, length)))


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("offer"), st.integers(1, 5)),
            st.tuples(st.just("window"), st.integers(0, 2)),
            st.tuples(st.just("pass"), st.integers(0, 12)),
            st.tuples(st.just("hand"), st.just(0)),
            st.tuples(st.just("sync"), st.integers(0, 2)),
        ),
        max_size=40,
    )
)
def test_every_batch_has_slots_of_its_own(steps: list[tuple[str, int]]) -> None:
    core = placement()
    core.step(Speculators(1))
    slots: list[tuple[int, int]] = []
    """The lane's slots, in order: cut and position."""
    placed: list[tuple[int, int, int]] = []
    """Of each batch: records, LSN, position."""
    offered: list[int] = []
    synced, base, cut, number, told_to, passed = {0: 0, 1: 0, 2: 0}, 1, 0, 0, 0, 0
    for name, value in steps:
        if name == "offer":
            offered.append(value)
            effects = offer(core, value)
        elif name == "window":
            number += 1
            opened = Window(number, base, 2, LAYOUTS[value], 1, cut)
            base, cut = opened.end, opened.end_cut
            share = opened.share(SECOND)
            if share is None:
                continue
            slots += [
                (opened.cut_of(each), each)
                for each in range(opened.base, opened.end)
                if opened.slot(each).lane == SECOND
            ]
            effects = core.step(WindowTold(share))
        elif name == "pass":
            effects = core.step(AskedToPass(value))
        elif name == "hand":
            effects = core.step(GroupHanded())
        else:
            synced[value] = sum(records for records, _, _ in placed)
            effects = ack(core, value, synced[value])
        for effect in effects:
            if isinstance(effect, Place):
                placed.append((offered[len(placed)], effect.lsn, effect.position))
                # A cut that was passed stays passed, and what was told to be empty stays empty.
                assert effect.position >= told_to
                assert {each: own for own, each in slots}[effect.position] >= passed
            elif isinstance(effect, Watermark):
                assert effect.position > told_to
                told_to = effect.position
        passed = core.report().passed
        durable = sorted(synced.values())[1]
        for records, lsn, position in placed:
            assert lsn + records <= durable or position >= told_to, "told before it was durable"
    cut_of = {position: own for own, position in slots}
    used = [position + rank for records, _, position in placed for rank in range(records)]
    assert used == sorted(set(used))
    for number, (records, lsn, position) in enumerate(placed):
        assert lsn == sum(each for each, _, _ in placed[:number])
        assert {cut_of.get(position + rank) for rank in range(records)} == {cut_of[position]}
    for own, end in core.report().used:
        assert own < passed
        assert end == sum(records for records, _, position in placed if cut_of[position] <= own)


def test_the_first_slots_of_a_cut_are_used() -> None:
    core = placement()
    told(core, window())
    assert [effect for effect in offer(core, 3) if isinstance(effect, Place)] == [Place("batch", 0, 5)]
    # Two more do not fit into what is left of the cut.
    assert Place("batch", 3, 13) in offer(core, 2)
    assert core.report().used == ((0, 3),)


def test_a_batch_that_is_too_large_waits_for_a_window_that_fits_it() -> None:
    core = placement()
    told(core, window())
    assert offer(core, 5) == [ReportDue()]
    assert core.report().wanted == 5
    share = window(2, 25, 3, 8).share(SECOND)
    assert share is not None
    assert Place("batch", 0, 33) in core.step(WindowTold(share))
    assert core.report().passed == 3


def test_what_waits_is_bounded() -> None:
    core = placement()
    for _ in range(UNPLACED_BATCHES_MAX):
        assert OfferRefused("batch") not in offer(core, 1)
    assert offer(core, 1) == [OfferRefused("batch")]
    core = placement()
    assert OfferRefused("batch") not in offer(core, 1, 2 * UNPLACED_BYTES_MAX)
    assert offer(core, 1) == [OfferRefused("batch")]


def test_a_group_passes_unless_two_wait_for_their_cuts() -> None:
    core = placement()
    told(core, Window(1, 1, 9, Layout(1, (SECOND,), (4,)), 1, 0))
    for expected in (1, 2, 2):
        offer(core, 1)
        core.step(GroupHanded())
        assert core.report().passed == expected
    core.step(Ordered(1))
    assert core.report().passed == 3
    assert core.report().used == ((1, 2), (2, 3))


def test_a_group_without_a_new_batch_passes_nothing() -> None:
    core = placement()
    told(core, window())
    assert core.step(GroupHanded()) == []


def test_a_cut_that_is_asked_for_before_its_window_is_told_is_passed_then() -> None:
    core = placement()
    core.step(AskedToPass(2))
    told(core, window())
    assert core.report().passed == 2
    assert core.watermark == 1 + 2 * 8 + 4


def test_the_clock_passes_only_what_has_records_while_somebody_speculates() -> None:
    core = placement()
    told(core, window())
    assert core.step(Ticked(1000, 1000)) == core.step(Ticked(9000, 1000)) == []
    core.step(Speculators(1))
    assert core.step(Ticked(10_000, 1000)) == core.step(Ticked(19_000, 1000)) == []
    offer(core, 1)
    core.step(Ticked(20_000, 1000))
    assert core.report().passed == 0
    core.step(Ticked(21_000, 1000))
    assert core.report().passed == 1
    assert not core.is_clocked
    assert core.step(Ticked(22_000, 1000)) == core.step(Ticked(29_000, 1000)) == []


def test_a_watermark_waits_for_what_is_not_durable() -> None:
    core = placement()
    told(core, window())
    offer(core, 2)
    offer(core, 1)
    assert core.watermark == 5
    ack(core, 0, 3)
    assert core.watermark == 5
    assert Watermark(7, 2) in ack(core, 1, 2)
    assert Watermark(8, 3) in ack(core, 2, 3)
    core.step(AskedToPass(3))
    assert core.watermark == window().end


def test_a_free_window_takes_batches_without_places() -> None:
    core = placement()
    told(core, window())
    offer(core, 1)
    assert core.step(FreeTold()) == [ReportDue()]
    assert core.report().passed == 3
    assert offer(core, 9) == [Place("batch", 1, 0)]
    core.step(FreeEnds())
    assert core.report().stopped == 10
    assert offer(core, 2) == [ReportDue()]
    share = window(3, 40, 3).share(SECOND)
    assert share is not None
    assert Place("batch", 10, 44) in core.step(WindowTold(share))


def test_acks_count_for_their_incarnation_and_disk() -> None:
    acks = Acks(SECOND)
    assert acks.take(SECOND, Ack(0, 2, 5))
    assert not acks.take(SECOND, Ack(0, 1, 9))
    assert not acks.take(SECOND._replace(incarnation=2), Ack(1, 1, 9))
    assert not acks.take(SECOND, Ack(0, 2, 4))
    assert acks.take(SECOND, Ack(1, 1, 3))
    assert acks.durable({0: 2, 1: 1, 2: 1}, 2) == 3
    assert acks.durable({0: 2, 2: 1}, 2) == 0
    assert acks.take(SECOND, Ack(0, 3, 1))
    assert acks.durable({0: 2, 1: 1, 2: 1}, 2) == 0
    assert acks.durable({0: 3, 1: 1, 2: 1}, 2) == 1


def test_what_a_disk_has_synced_counts_once_the_order_names_it() -> None:
    core = Placement(SECOND, 1, {0: 1}, 2)
    told(core, window())
    offer(core, 1)
    ack(core, 0, 1)
    ack(core, 1, 1)
    assert core.durable == 0
    assert Watermark(6, 1) in core.step(Members(1, {0: 1, 1: 1}, 2))
    assert core.durable == 1
