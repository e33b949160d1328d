"""Storage servers that wait to be somebody, and learners, which copy a shard to become one of its replicas.

Soft state of one term. A spare that the view has at its address is that replica, whoever leads; a learner says
itself who it is when it finds a new leader. So nothing here needs to outlive the leader.

A *link* is how somebody is reached: the shell's word for a connection, which means nothing here.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, Literal, NamedTuple, TypeVar

from ithaca.engines.scalog.ordering.entries import AddReplica
from ithaca.engines.scalog.ordering.leader import CutProposer
from ithaca.engines.scalog.ordering.reports import Report
from ithaca.engines.scalog.ordering.state import OrderingState
from ithaca.model.errors import AddressInUse, IthacaError, NoSuchReplica, NoSuchShard, Overloaded
from ithaca.model.limits import LEARNER_NUMBER_LEAP_MAX, LEARNER_UNASKED_S, REPLICA_NUMBER_MAX, SPARES_MAX
from ithaca.model.positions import LaneId
from ithaca.model.view import Address, Shard

LinkT = TypeVar("LinkT", bound=Hashable)


class Appoint(NamedTuple):
    """Tell the spare that waits at this address which replica it is, or is to become."""

    address: Address
    shard: int
    replica: int


class Supersede(NamedTuple):
    """Another has enlisted as the same: end this link."""

    link: Hashable


class WatchLearners(NamedTuple):
    """Somebody learns who did not: look at learners, and again when one may be unasked."""


class Warn(NamedTuple):
    """Tell people, once in a term."""

    text: str


SpareEffect = Appoint | Supersede | WatchLearners | Warn


class Admission(NamedTuple):
    """How far a server is that is to become a replica, and which."""

    state: Literal["added", "absent", "whole", "learning"]
    replica: int = 0


@dataclass(slots=True)
class Learner(Generic[LinkT]):
    """A server that is to become a replica; without a link it is on its way, or gone."""

    shard: int
    replica: int
    link: LinkT | None
    asked_s: float
    """When somebody was last known to want it."""
    is_complete: bool = False
    """Whether it has synced all that was due of its shard a moment ago: under load it never has all."""
    due: dict[LaneId, int] | None = None
    """How much was due when it last reported."""

    def looked_at(self, lengths: Mapping[LaneId, int], due: dict[LaneId, int]) -> None:
        """It has all this by its reports, and this is due now: what is ordered, and the sealed parts."""
        before, self.due = self.due, due
        self.is_complete = before is not None and all(
            lengths.get(lane, 0) >= length for lane, length in before.items() if lane in due
        )


class Spares(Generic[LinkT]):
    """Who waits, and who learns, by their addresses. `now_s` is a monotonic clock."""

    def __init__(self, state: OrderingState) -> None:
        self._state = state
        self._waiting: dict[Address, LinkT] = {}
        self._learners: dict[Address, Learner[LinkT]] = {}
        self._last: dict[int, int] = {}
        """The highest number of a learner of each shard."""
        self._adding: set[int] = set()
        """Shards to which a learner is being added."""

    def __len__(self) -> int:
        return len(self._waiting)

    def enlist(self, address: Address, link: LinkT, now_s: float) -> list[SpareEffect] | Overloaded:
        """A spare is there: it is told who it is, as soon as somebody says so."""
        former = self._waiting.get(address)
        if former is None and len(self._waiting) >= SPARES_MAX:
            return Overloaded(f"{SPARES_MAX} spares wait already: use some of them first")
        effects: list[SpareEffect] = [Supersede(former)] if former is not None and former != link else []
        self._waiting[address] = link
        effects += self.view_changed()
        learner = self._learners.pop(address, None)
        shard = None if learner is None else self._state.shards.by_number.get(learner.shard)
        if learner is None or shard is None or address not in self._waiting:
            return effects
        if learner.replica > shard.replica_last:  # else another took its place, and it is not needed
            # Its disk is empty: under its former number it would not be believed.
            effects += self._learn(shard, address, now_s)
        return effects

    def lost(self, link: LinkT) -> None:
        """The link has ended."""
        self._waiting = {address: each for address, each in self._waiting.items() if each != link}
        for learner in self._learners.values():
            if learner.link == link:
                learner.link = None

    def view_changed(self) -> list[SpareEffect]:
        """Spares that have become replicas by the view are told so, and learners that have are learners no more."""
        effects: list[SpareEffect] = []
        if self._waiting or self._learners:
            for shard in self._state.shards.by_number.values():
                for each in shard.replicas:
                    self._learners.pop(each.address, None)
                    if self._waiting.pop(each.address, None) is not None:
                        effects.append(Appoint(each.address, shard.shard, each.replica))
        return effects

    def take(self, count: int, reserved: Iterable[Address] = ()) -> list[Address] | None:
        """The addresses of so many spares, those that have waited for longest; None when there are fewer."""
        taken = set(reserved)
        free = [address for address in self._waiting if address not in taken]
        return free[:count] if len(free) >= count else None

    # Learners

    def complete(self, shards: Iterable[Shard], now_s: float, *, forgets_absent: bool) -> list[SpareEffect]:
        """Have spares learn what these shards are short of, whoever removed it.

        `forgets_absent`: learners that have not come back since the last call with this are given up.
        """
        effects: list[SpareEffect] = []
        if forgets_absent:
            self._learners = {address: each for address, each in self._learners.items() if each.link is not None}
        for shard in shards:
            learners = [each for each in self._learners.values() if each.shard == shard.shard]
            if len(shard.replicas) < shard.size:
                for learner in learners:
                    learner.asked_s = now_s
            for _ in range(shard.size - len(shard.replicas) - len(learners)):
                learned = self._learn(shard, next(iter(self._waiting), None), now_s)
                effects += learned or [
                    Warn(f"shard {shard.shard} has {len(shard.replicas)} of {shard.size} replicas: no spare waits")
                ]
        return effects

    def learners_of(self, shard: int) -> int:
        """How many learners of the shard are there, or on their way."""
        return sum(learner.shard == shard for learner in self._learners.values())

    def join(
        self, shard: Shard, replica: int, address: Address | None, link: LinkT, now_s: float
    ) -> list[SpareEffect] | IthacaError:
        """A replica that the shard does not have wants to learn, or cannot."""
        if address is None or replica <= shard.replica_last or self._has_another(shard.shard, replica, address):
            return NoSuchReplica(
                f"there is no replica {replica} of shard {shard.shard}: it was removed, or never added; nobody counts "
                "on what it holds"
            )
        if replica > _number_max(shard):
            return NoSuchReplica(f"no learner of shard {shard.shard} was told to be replica {replica}")
        if address not in self._learners and len(self._learners) >= SPARES_MAX:
            return Overloaded(f"{SPARES_MAX} learners are under way already: try again later")
        self._last[shard.shard] = max(replica, self._last.get(shard.shard, 0))
        former = self._learners.get(address)
        is_known = former is not None and (former.shard, former.replica) == (shard.shard, replica)
        asked_s = former.asked_s if former is not None and is_known else now_s
        self._learners[address] = Learner(shard.shard, replica, link, asked_s)
        return [WatchLearners()]

    @property
    def has_learners(self) -> bool:
        """Whether anybody learns."""
        return bool(self._learners)

    def reported(self, leader: CutProposer, report: Report) -> AddReplica | None:
        """The entry that adds whoever has just reported, if it is a learner and may be added.

        One at a time is added to a shard: say `added` when that is over.
        """
        number, replica = report.shard, report.replica
        shard = self._state.shards.by_number.get(number)
        found = [each for each in self._learners.items() if (each[1].shard, each[1].replica) == (number, replica)]
        if not found or shard is None:
            return None
        address, learner = found[0]
        learner.looked_at(leader.reported_lengths(number, replica), self._state.lengths_due(number))
        has_room = shard.phase == "finalized" or len(shard.replicas) < shard.size
        if not has_room or not leader.has_caught_up(number, replica):
            return None
        if number in self._adding:
            return None
        self._adding.add(number)
        return AddReplica(number, shard.epoch, replica, address)

    def added(self, shard: int) -> None:
        """The entry that adds a learner was applied, or was not taken."""
        self._adding.discard(shard)

    def admit(self, number: int, address: Address, now_s: float) -> tuple[Admission, list[SpareEffect]] | IthacaError:
        """Have the server at this address learn the shard, if it does not yet; how far it is."""
        shard = self._state.shards.by_number.get(number)
        if shard is None:
            return NoSuchShard(f"there is no shard {number}")
        for other in self._state.shards.by_number.values():
            for each in other.replicas:
                if each.address == address:
                    if other is shard:
                        return Admission("added", each.replica), []
                    return AddressInUse(f"{address} is the address of replica {other.shard}/{each.replica}")
        effects = [] if address in self._learners else self._learn(shard, address, now_s)
        learner = self._learners.get(address)
        if learner is not None and learner.shard != number:
            return AddressInUse(f"the server at {address} is learning shard {learner.shard}")
        if learner is not None:
            learner.asked_s = now_s
        if learner is None or learner.link is None:
            return Admission("absent"), effects
        return Admission("whole" if learner.is_complete else "learning", learner.replica), effects

    # Learners that nobody asks for any more

    def unasked(self, now_s: float) -> list[tuple[Address, Learner[LinkT]]]:
        """Those whom nobody has wanted for too long."""
        return [each for each in self._learners.items() if _left_s(each[1], now_s) <= 0]

    def unasked_in_s(self, now_s: float) -> float | None:
        """In how long somebody may be among them; None without any learner."""
        return min((_left_s(learner, now_s) for learner in self._learners.values()), default=None)

    def let_go(self, address: Address, learner: Learner[LinkT], now_s: float) -> NoSuchReplica | None:
        """What it is to be told since it is not needed; None if it is by now. Only who leads for certain may say so."""
        if learner.shard in self._adding:  # it may be the one that is being added
            return None
        if self._learners.get(address) is not learner or _left_s(learner, now_s) > 0:
            return None
        del self._learners[address]
        return NoSuchReplica(
            f"nobody has asked for replica {learner.replica} of shard {learner.shard} since {LEARNER_UNASKED_S:g} s: "
            "it was not added, and nobody counts on what it holds"
        )

    # Parts

    def _learn(self, shard: Shard, address: Address | None, now_s: float) -> list[SpareEffect]:
        """Have the spare at this address copy this shard; nothing when it does not wait."""
        if address is None or address not in self._waiting:
            return []
        number = max(shard.replica_last, self._last.get(shard.shard, 0)) + 1
        if number > _number_max(shard) or len(self._learners) >= SPARES_MAX:
            return [Warn(f"shard {shard.shard} can have no replica {number}, or too many learners are under way")]
        self._last[shard.shard] = number
        self._learners[address] = Learner(shard.shard, number, self._waiting.pop(address), now_s)
        return [WatchLearners(), Appoint(address, shard.shard, number)]

    def _has_another(self, shard: int, replica: int, address: Address) -> bool:
        """Whether another server was given this number."""
        return any(
            (learner.shard, learner.replica) == (shard, replica) and other != address
            for other, learner in self._learners.items()
        )


def _number_max(shard: Shard) -> int:
    """The highest number that a learner may have: numbers are used once, and there is an end to them."""
    return min(REPLICA_NUMBER_MAX, shard.replica_last + LEARNER_NUMBER_LEAP_MAX)


def _left_s(learner: Learner[LinkT], now_s: float) -> float:
    """How long it is still taken for wanted if nobody asks for it."""
    return learner.asked_s + LEARNER_UNASKED_S - now_s
