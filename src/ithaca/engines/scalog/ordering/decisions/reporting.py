"""Who reports through which aggregator, and how that is put right.

All of it is soft state. An aggregator is there for as long as its link, or that of the one above it. A replica that
comes to the leader is sent to the aggregator that `ordering.assignment` chooses for its shard; one that says that it
suspects that one gets another, or stays. When aggregators have come, replicas that were placed without them are told
to move, a few at a time.
"""

from collections import deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, NamedTuple

from ithaca.engines.scalog.ordering.assignment import chosen
from ithaca.engines.scalog.ordering.decisions.spares import LinkT
from ithaca.engines.scalog.ordering.liveness import Member
from ithaca.model.errors import Unavailable
from ithaca.model.limits import AGGREGATORS_AWAITED_S, MOVES_PAUSE_S, MOVES_TOGETHER, SUSPECT_S
from ithaca.model.view import Address

LEAF_LEVEL = 1
"""Of the aggregators that replicas report to."""

Suspects = tuple[Address, ...]
"""Aggregators that did not serve whoever says this."""


class MoveReplica(NamedTuple):
    """Have a replica go to another aggregator."""

    shard: int
    replica: int
    to: Address


class MoveAggregator(NamedTuple):
    """Have the aggregator behind this link go to one of the level above."""

    link: Hashable
    to: Address


class RepairIn(NamedTuple):
    """Call `repair` after so long, unless that is planned for an earlier time."""

    seconds: float


class Gone(NamedTuple):
    """This aggregator has gone: tell people."""

    number: int
    address: Address


ReportingEffect = MoveReplica | MoveAggregator | RepairIn | Gone


@dataclass(frozen=True, slots=True)
class Aggregator(Generic[LinkT]):
    """One that has attached."""

    number: int
    address: Address
    level: int
    link: LinkT
    """Its own, or that of the aggregator above it."""
    is_direct: bool
    """Whether the link is its own."""
    suspects: Suspects = ()
    since_s: float = 0.0


@dataclass(frozen=True, slots=True)
class _Joined:
    """How a replica has come."""

    via: int
    suspects: Suspects
    since_s: float


class Reporting(Generic[LinkT]):
    """The aggregators of a leader, and who reports through them. `now_s` is a monotonic clock."""

    def __init__(self, *, are_expected: bool) -> None:
        """`are_expected`: the cluster's file has some, so that a new leader gives them time to find it."""
        self._are_expected = are_expected
        self._attached: dict[int, Aggregator[LinkT]] = {}
        self._joined: dict[Member, _Joined] = {}
        self._moves: deque[Member] = deque()
        """Replicas that are not where they should be."""
        self._has_changed = False
        self._leads_since_s = 0.0

    @property
    def aggregators(self) -> list[Aggregator[LinkT]]:
        """Those that have attached, in the order in which they did."""
        return list(self._attached.values())

    # One term

    def begin(self, now_s: float) -> None:
        """The term begins, and nobody has attached."""
        self._leads_since_s = now_s

    def end(self) -> list[LinkT]:
        """The term is over: whoever has attached must look for another leader; says over which links they did."""
        links = [each.link for each in self._attached.values()]
        self._attached.clear()
        self._joined.clear()
        self._moves.clear()
        return links

    # Aggregators

    def attach(self, aggregator: Aggregator[LinkT]) -> Address | list[ReportingEffect]:
        """Take an aggregator; or say through which other one it is to come."""
        if aggregator.is_direct:
            parent = self._choose(aggregator.number, aggregator.level + 1, aggregator.suspects)
            if parent is not None:
                return parent.address
        self._attached[aggregator.number] = aggregator
        return self._changed()

    def is_at(self, number: int, address: Address) -> bool:
        """Whether this aggregator has attached, with this address."""
        known = self._attached.get(number)
        return known is not None and known.address == address

    def detach(self, number: int, link: LinkT) -> list[ReportingEffect]:
        """An aggregator that came over this link has left."""
        known = self._attached.get(number)
        return self._drop([known] if known is not None and known.link == link else [])

    def lost(self, link: LinkT) -> list[ReportingEffect]:
        """A link has ended: whoever attached over it is gone."""
        return self._drop([each for each in self._attached.values() if each.link == link])

    # Replicas

    def place(self, shard: int, via: int, suspects: Suspects, now_s: float) -> Address | Unavailable | None:
        """Where a replica is to go instead of joining here; None if it joins. `via`: it comes through that one."""
        if via:
            return None
        found = self._choose(shard, LEAF_LEVEL, suspects)
        if found is not None:
            return found.address
        if self._are_expected and not self._attached and now_s - self._leads_since_s < AGGREGATORS_AWAITED_S:
            return Unavailable("a new leader leads, and the aggregators have not found it yet")
        return None

    def joined(self, replica: Member, via: int, suspects: Suspects, now_s: float) -> None:
        """A replica has joined."""
        self._joined[replica] = _Joined(via, suspects, now_s)

    def via(self, replica: Member) -> int | None:
        """Through which aggregator a replica has joined: 0 for none, None if it has not."""
        known = self._joined.get(replica)
        return None if known is None else known.via

    # Putting right

    def repair(self, present: Iterable[Member], now_s: float) -> list[ReportingEffect]:
        """Have some of those move that are not where they should be, and come back for the rest.

        `present` are the replicas that have joined and are still there.
        """
        if self._has_changed or not self._moves:
            self._has_changed = False
            there = set(present)
            self._joined = {key: each for key, each in self._joined.items() if key in there}
            self._moves = deque(key for key in self._joined if self._better(key, now_s) is not None)
        moved = self._move_aggregator(now_s)
        if moved is not None:
            return [moved, *self._changed()]
        effects: list[ReportingEffect] = []
        for _ in range(min(MOVES_TOGETHER, len(self._moves))):
            member = self._moves.popleft()
            to = self._better(member, now_s)
            if to is not None:
                effects.append(MoveReplica(*member, to))
        if self._moves or self._attached:
            effects.append(RepairIn(MOVES_PAUSE_S if self._moves else SUSPECT_S))
        return effects

    def _drop(self, gone: list[Aggregator[LinkT]]) -> list[ReportingEffect]:
        effects: list[ReportingEffect] = []
        for each in gone:
            del self._attached[each.number]
            effects.append(Gone(each.number, each.address))
        return [*effects, *self._changed()] if gone else []

    def _changed(self) -> list[ReportingEffect]:
        self._has_changed = True
        return [RepairIn(MOVES_PAUSE_S)]

    def _better(self, member: Member, now_s: float) -> Address | None:
        """The aggregator that a replica should go to and is not at."""
        known = self._joined.get(member)
        if known is None:
            return None
        found = self._choose(member[0], LEAF_LEVEL, _fresh(known, now_s))
        return None if found is None or found.number == known.via else found.address

    def _move_aggregator(self, now_s: float) -> MoveAggregator | None:
        """Send one aggregator to one of the level above; whoever is below it joins again."""
        for each in self._attached.values():
            parent = self._choose(each.number, each.level + 1, _fresh(each, now_s)) if each.is_direct else None
            if parent is not None:
                return MoveAggregator(each.link, parent.address)
        return None

    def _choose(self, of: int, level: int, suspects: Suspects) -> Aggregator[LinkT] | None:
        able = {each.number: each for each in self._attached.values() if each.level == level}
        number = chosen(of, [number for number, each in able.items() if each.address not in suspects])
        return None if number is None else able[number]


def _fresh(known: Aggregator[LinkT] | _Joined, now_s: float) -> Suspects:
    """Whom it still suspects."""
    return known.suspects if now_s - known.since_s < SUSPECT_S else ()
