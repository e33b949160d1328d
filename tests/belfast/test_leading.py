"""What a leader decides: quotas, groups, stragglers, modes, whom it takes over (invariant 11)."""

from tests.belfast.orders import FIRST, SECOND, THIRD, Orders

from ithaca.engines.belfast.limits import QUOTA_SLOTS, QUOTA_SLOTS_MAX, STRAGGLER_WINDOWS
from ithaca.engines.belfast.speculation.disks import Disks
from ithaca.engines.belfast.speculation.entries import CutRange, EndFree, OpenWindow
from ithaca.engines.belfast.speculation.mode import ModeChoice
from ithaca.engines.belfast.speculation.places import PlacedRun, Places
from ithaca.engines.belfast.speculation.planning import Plan, Planner
from ithaca.engines.belfast.speculation.progress import AskPass, Progress
from ithaca.engines.belfast.speculation.quotas import RateQuotas, Stragglers, groups_of, wide_quota
from ithaca.engines.belfast.speculation.reports import Ack, LaneReport
from ithaca.engines.belfast.speculation.takeover import (
    AnswerPromise,
    AskPromise,
    CloseTaken,
    Copied,
    CopyLane,
    Moved,
    OrderPlaces,
    PromiseAsked,
    Promised,
    Promises,
    PromiseSynced,
    SyncPromise,
    Takeover,
    final_ends,
)
from ithaca.model.positions import LaneId
from ithaca.model.view import Address, Replica, Shard


def shards(*numbers: int, f: int = 1, masking: bool = True) -> dict[int, Shard]:
    size = 2 * f + 1 if masking else f + 1
    replicas = tuple(Replica(number, Address("h", number), 1) for number in range(size))
    return {number: Shard(number, f, masking, replicas, size - 1) for number in numbers}


def progress(orders: Orders, ahead_max: int = 0) -> Progress:
    disks = Disks((shard, replica, 1) for shard in range(3) for replica in range(3))
    return Progress(orders.order, orders.lanes, shards(0, 1, 2), disks, ahead_max=ahead_max)


def report(lane: LaneId, passed: int, used: dict[int, int], *lengths: int, wanted: int = 0) -> LaneReport:
    acks = tuple(Ack(replica, 1, length) for replica, length in enumerate(lengths))
    return LaneReport(lane, 1, passed, tuple(sorted(used.items())), acks, wanted)


def test_a_cut_waits_for_every_lane_and_for_the_second_copy() -> None:
    orders = Orders(FIRST, SECOND)
    orders.begin(FIRST, SECOND, rounds=4)
    core = progress(orders)
    assert core.receive(report(FIRST, 1, {0: 2}, 2, 0, 0))
    assert core.asks() == [AskPass(SECOND, 1)]
    assert core.asks() == []
    assert core.asks_again() == [AskPass(SECOND, 1)]
    core.receive(report(SECOND, 1, {}))
    assert core.propose(7) is None
    assert core.late() == [FIRST]
    core.receive(report(FIRST, 1, {0: 2}, 2, 0, 2))
    assert core.propose(7) == CutRange(1, 0, 1, ((0, ((FIRST, 2),)),), 7)
    assert core.propose(7) is None
    core.refused()
    assert core.propose(7) is not None


def test_a_lane_that_places_nothing_is_asked_to_pass_more_and_more_and_never_what_is_not_ordered() -> None:
    orders = Orders(FIRST, SECOND)
    orders.begin(FIRST, SECOND, rounds=48)
    core = progress(orders, ahead_max=12)
    core.receive(report(FIRST, 0, {}))
    asked = []
    for cut in range(48):
        core.receive(report(FIRST, cut + 1, {cut: cut + 1}, cut + 1, cut + 1))
        asks = core.asks()
        asked += [ask.cut for ask in asks]
        for ask in asks:
            core.receive(report(SECOND, ask.cut, {}))
    assert asked == [1 + 6, 8 + 12, 21 + 12, 34 + 12, 48], "no cut behind the window is passed"
    entry = core.propose(7)
    assert entry is not None
    assert (entry.start, entry.stop) == (0, 48), "the other lane was never waited for"


def test_a_lane_that_places_something_is_asked_to_pass_fewer_again() -> None:
    orders = Orders(FIRST, SECOND)
    orders.begin(FIRST, SECOND, rounds=48)
    core = progress(orders, ahead_max=12)
    core.receive(report(FIRST, 1, {0: 1}))
    assert core.asks() == [AskPass(SECOND, 1 + 6)]
    core.receive(report(SECOND, 8, {7: 1}))
    assert core.asks() == [AskPass(FIRST, 8 + 3)], "it has placed something since it was asked last"
    core.receive(report(FIRST, 11, {0: 1}))
    core.receive(report(SECOND, 9, {7: 1, 8: 2}))
    assert core.asks() == []
    core.receive(report(SECOND, 12, {7: 1, 8: 2, 11: 3}))
    assert core.asks() == [AskPass(FIRST, 12 + 6)]


def test_what_another_disk_has_does_not_count() -> None:
    orders = Orders(FIRST)
    orders.begin(FIRST)
    core = progress(orders)
    acks = (Ack(0, 1, 2), Ack(1, 9, 2))
    core.receive(LaneReport(FIRST, 1, 1, ((0, 2),), acks))
    assert core.durable(FIRST) == 0
    core.receive(LaneReport(FIRST, 1, 1, ((0, 2),), (*acks, Ack(2, 1, 2))))
    assert core.durable(FIRST) == 2


def test_empty_cuts_alone_are_not_ordered() -> None:
    orders = Orders(FIRST)
    orders.begin(FIRST, rounds=4)
    core = progress(orders)
    core.receive(report(FIRST, 3, {}))
    assert core.propose(0) is None
    orders.order.reserve(1)
    assert core.propose(0) == CutRange(1, 0, 3)


def test_reports_of_others_do_not_count() -> None:
    orders = Orders(FIRST)
    orders.begin(FIRST)
    core = progress(orders)
    assert not core.receive(report(THIRD, 1, {}))
    assert not core.receive(LaneReport(FIRST, 2, 1))
    assert not core.receive(LaneReport(LaneId(9, 0, 1), 1, 1))


def test_a_window_is_ordered_when_the_newest_is_half_used() -> None:
    orders = Orders(FIRST, SECOND)
    core = progress(orders)
    planner = Planner(orders.order, core, rounds=4)
    lanes = (FIRST, SECOND)

    def plan(mode: str = "fixed") -> Plan:
        return planner.plan(lanes, {}, mode, 0, 1000)

    assert plan("free") == Plan()
    assert plan() == Plan(EndFree(0, 1))
    assert plan() == Plan()
    orders.begin(FIRST, SECOND, rounds=4, q=QUOTA_SLOTS)
    planner.applied()
    assert plan() == Plan()
    core.receive(report(FIRST, 1, {}))
    assert plan() == Plan()
    core.receive(report(FIRST, 2, {}))
    entry = OpenWindow(2, orders.order.end, 4, 1, (QUOTA_SLOTS,), lanes, 1)
    assert plan() == Plan(entry)
    assert plan() == Plan()


def test_a_batch_that_is_too_large_is_hurried_for() -> None:
    orders = Orders(FIRST, SECOND)
    orders.begin(FIRST, SECOND, rounds=4, q=QUOTA_SLOTS)
    core = progress(orders)
    planner = Planner(orders.order, core, rounds=4)
    core.receive(report(SECOND, 0, {}, wanted=QUOTA_SLOTS + 1))
    plan = planner.plan((FIRST, SECOND), {}, "fixed", 0, 1000)
    assert isinstance(plan.entry, OpenWindow)
    assert plan.entry.q == (2 * QUOTA_SLOTS,)
    assert plan.pass_to == 4
    assert core.asks(plan.pass_to) == [AskPass(FIRST, 4), AskPass(SECOND, 4)]


def test_quotas_groups_and_rates() -> None:
    assert [groups_of(lanes) for lanes in (1, 6, 7, 12, 13)] == [1, 1, 2, 2, 3]
    assert wide_quota([QUOTA_SLOTS_MAX + 5]) == QUOTA_SLOTS_MAX
    rates = RateQuotas()
    assert rates.next({FIRST: 100}, {}, 0, 1000) == {FIRST: 1}
    assert rates.next({FIRST: 1100, SECOND: 5}, {SECOND: 7}, 100_000, 1000) == {FIRST: 10, SECOND: 7}


def test_a_straggler_is_left_out_and_probed() -> None:
    stragglers = Stragglers()
    assert stragglers.look([FIRST], 0, 3) == []
    assert stragglers.look([], 20_000, 3) == []
    assert stragglers.look([FIRST], 40_000, 3) == []
    assert stragglers.look([FIRST], 90_000, 3) == [FIRST]
    out = [window for window in range(4, 12) if stragglers.is_out(FIRST, window, 90_000)]
    assert out == list(range(4, 4 + STRAGGLER_WINDOWS))
    assert stragglers.next_look_us(90_000) == 1_090_000
    assert not stragglers.is_out(FIRST, 4, 1_090_000), "windows may take long: it is probed after a while all the same"
    stragglers.closed(FIRST)
    assert not stragglers.is_out(FIRST, 4, 90_000)


def test_auto_goes_by_speculators_and_lateness() -> None:
    choice = ModeChoice("auto")
    assert choice.choose(0, 0) == "free"
    assert choice.choose(1, 0) == "fixed"
    assert choice.choose(0, 9_000_000) == "fixed"
    assert choice.choose(0, 10_000_000) == "free"
    choice.ordered(100, 19, 0)
    assert choice.choose(1, 20_000_000) == "fixed"
    choice.ordered(100, 20, 20_000_000)
    assert choice.choose(1, 79_000_000) == "free"
    assert choice.choose(1, 80_000_000) == "fixed"
    assert ModeChoice("free").choose(5, 0) == "free"


def test_a_promise_is_synced_before_it_is_answered() -> None:
    promises = Promises()
    assert promises.may_acknowledge(FIRST)
    assert promises.step(PromiseAsked(FIRST)) == [SyncPromise(FIRST)]
    assert not promises.may_acknowledge(FIRST)
    assert promises.step(PromiseAsked(FIRST)) == []
    assert promises.step(PromiseSynced(FIRST)) == [AnswerPromise(FIRST)]
    assert Promises([FIRST]).step(PromiseAsked(FIRST)) == [AnswerPromise(FIRST)]
    assert not Promises([FIRST]).may_acknowledge(FIRST)


def taken(orders: Orders, length: int) -> Takeover:
    """A takeover that has found a copy of this length, a record in each cut."""
    takeover = Takeover(FIRST, {0: 1, 1: 1, 2: 1}, 2, orders.order)
    takeover.step(Promised(2, 9, disk=2), 0)
    takeover.step(Promised(1, 0, 1), 0)
    copies = takeover.step(Promised(0, length, 1), 0)
    assert copies == [CopyLane(FIRST, 0, 0, length), CopyLane(FIRST, 0, 1, length)]
    takeover.step(Copied(0, length), 0)
    return takeover


def test_the_longest_copy_is_ordered_before_the_lane_closes() -> None:
    orders = Orders(FIRST)
    orders.begin(FIRST, rounds=3, q=1)
    takeover = taken(orders, 2)
    places = (PlacedRun(0, 1, 1), PlacedRun(1, 3, 1))
    assert takeover.step(Copied(1, 2, places), 0) == [OrderPlaces(FIRST, ((0, 1), (2, 2)), 2)]
    assert takeover.step(Moved(), 1) == []
    (closing,) = takeover.step(Moved(), 2)
    assert isinstance(closing, CloseTaken)
    assert closing.entry.length == 2
    assert takeover.step(Moved(), None) == []


def test_a_takeover_goes_without_what_cuts_on_their_way_left_out() -> None:
    """An earlier takeover found less, and its cut was applied when this one had begun to order."""
    orders = Orders(FIRST)
    orders.begin(FIRST, rounds=3, q=1)
    takeover = taken(orders, 2)
    takeover.step(Copied(1, 2, (PlacedRun(0, 1, 2),)), 0)
    orders.apply(orders.cuts(2, (0, {FIRST: 1})))
    order_places, closing = takeover.step(Moved(), 1)
    assert order_places == OrderPlaces(FIRST, (), 1)
    assert isinstance(closing, CloseTaken)
    assert closing.entry.length == 1


def test_a_takeover_whose_longest_copy_is_gone_starts_over_with_those_that_promised() -> None:
    orders = Orders(FIRST)
    orders.begin(FIRST, rounds=3, q=1)
    takeover = Takeover(FIRST, {0: 1, 1: 1, 2: 1}, 2, orders.order)
    takeover.step(Promised(0, 2, 1), 0)
    assert takeover.step(Promised(1, 1, 1), 0) == [CopyLane(FIRST, 0, 0, 2), CopyLane(FIRST, 0, 1, 2)]
    takeover.step(Copied(0, 2), 0)
    assert takeover.went(0) == []
    assert takeover.phase == "promising"
    assert takeover.step(Copied(1, 2), 0) == []
    assert takeover.step(Promised(2, 0, 1), 0) == [CopyLane(FIRST, 1, 1, 1), CopyLane(FIRST, 1, 2, 1)]
    assert takeover.came(0) == [AskPromise(0, FIRST)]
    assert takeover.step(Promised(0, 2, 1), 0) == [CopyLane(FIRST, 0, 0, 1)]


def test_what_has_no_place_is_left_out_with_all_behind_it() -> None:
    orders = Orders(FIRST)
    orders.begin(FIRST, rounds=3, q=2)
    assert final_ends(orders.order, [PlacedRun(0, 1, 3), PlacedRun(4, 5, 1)], 0, 5) == ({0: 2, 1: 3}, 3)
    assert final_ends(orders.order, [PlacedRun(0, 1, 6)], 1, 4) == ({0: 2, 1: 4}, 4)


def test_places_next_to_each_other_are_one_stretch() -> None:
    places = Places([PlacedRun(0, 1, 2), PlacedRun(2, 3, 1), PlacedRun(3, 9, 1)])
    assert places.all() == (PlacedRun(0, 1, 3), PlacedRun(3, 9, 1))
    places.ordered(2)
    assert places.all() == (PlacedRun(0, 1, 3), PlacedRun(3, 9, 1))
    places.ordered(3)
    assert places.all() == (PlacedRun(3, 9, 1),)
