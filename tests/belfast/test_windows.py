"""Slot arithmetic against slots that are written out one by one (invariants 1 and 2)."""

from hypothesis import given
from hypothesis import strategies as st

from ithaca.engines.belfast.speculation.kept import KeptShares, KeptWindows
from ithaca.engines.belfast.speculation.windows import Layout, Window
from ithaca.model.positions import LaneId

NaiveSlot = tuple[int, LaneId, int, int]
"""Cut, lane, round, rank."""


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    shards = sorted(draw(st.sets(st.integers(0, 20), min_size=1, max_size=5)))
    lanes = tuple(LaneId(shard, draw(st.integers(0, 2)), 1) for shard in shards)
    same = draw(st.booleans())
    quotas = tuple(draw(st.integers(1, 4)) for _ in (lanes[:1] if same else lanes))
    return Layout(draw(st.integers(1, len(lanes))), lanes, quotas)


@st.composite
def windows(draw: st.DrawFn) -> Window:
    return Window(1, draw(st.integers(1, 50)), draw(st.integers(1, 4)), draw(layouts()), 1, draw(st.integers(0, 9)))


def naive_slots(window: Window) -> list[NaiveSlot]:
    """Every slot in the order of positions: rounds, groups, shards, ranks."""
    layout, slots = window.layout, []
    quotas = dict(zip(layout.lanes, layout.quotas * (len(layout.lanes) // len(layout.quotas)), strict=True))
    for round_ in range(window.rounds):
        for group in range(layout.groups):
            cut = window.first_cut + round_ * layout.groups + group
            for place, lane in enumerate(layout.lanes):
                if place % layout.groups == group:
                    slots += [(cut, lane, round_, rank) for rank in range(quotas[lane])]
    return slots


@given(windows())
def test_everybody_predicts_alike(window: Window) -> None:
    slots = naive_slots(window)
    assert window.end == window.base + len(slots)
    for position, (cut, lane, round_, rank) in enumerate(slots, window.base):
        assert window.slot(position) == (lane, round_, rank)
        assert window.cut_of(position) == cut
        assert lane in window.lanes_in(cut)
        share = window.share(lane)
        assert share is not None
        assert share.own_cut(cut) == cut
        assert share.start(cut) + rank == position
        assert rank < share.q
    assert window.end_cut == window.first_cut + window.rounds * window.layout.groups


@given(windows())
def test_cuts_end_where_their_last_slot_does(window: Window) -> None:
    slots = naive_slots(window)
    for cut in range(window.first_cut, window.end_cut):
        assert window.cut_end(cut) == window.base + sum(each[0] <= cut for each in slots)


@given(windows())
def test_a_lane_finds_its_next_cut(window: Window) -> None:
    slots = naive_slots(window)
    for lane in window.layout.lanes:
        share = window.share(lane)
        assert share is not None
        own = sorted({cut for cut, owner, _, _ in slots if owner == lane})
        for cut in range(window.first_cut, window.end_cut + 1):
            assert share.own_cut(cut) == next((each for each in own if each >= cut), None)


def test_no_share_for_a_lane_that_is_not_listed() -> None:
    window = Window(1, 1, 1, Layout(1, (LaneId(0, 0, 1),), (4,)), 1, 0)
    assert window.share(LaneId(1, 0, 1)) is None


@given(st.lists(layouts(), min_size=1, max_size=2), st.lists(st.tuples(st.booleans(), st.integers(0, 3)), max_size=8))
def test_kept_windows_say_who_owns_a_position(kinds: list[Layout], drawn: list[tuple[bool, int]]) -> None:
    kept, owners, base = KeptWindows(), dict[int, LaneId](), 1
    shares = {lane: KeptShares() for layout in kinds for lane in layout.lanes}
    for number, (is_last, gap) in enumerate(drawn, 1):
        layout = kinds[-1] if is_last else kinds[0]
        base += gap  # a publication, or a free window
        window = Window(number, base, 2, layout, 1, 0)
        kept.keep(window)
        for lane, share in layout.shares.items():
            shares[lane].add(window.base, window.end, share)
        owners |= {position: each[1] for position, each in enumerate(naive_slots(window), base)}
        base = window.end
    for position in range(base + 2):
        assert kept.owner(position) == owners.get(position)
        for lane, own in shares.items():
            assert own.owns(position) == (owners.get(position) == lane)


def test_equal_windows_are_kept_as_one_until_they_are_trimmed() -> None:
    layout = Layout(1, (LaneId(0, 0, 1),), (4,))
    kept = KeptWindows()
    for number in range(1000):
        kept.keep(Window(number + 1, 1 + 8 * number, 2, layout, 1, 2 * number))
    assert len(kept.spans) == 1
    kept.trim(8001)
    assert kept.spans == []
    assert kept.owner(5) is None
