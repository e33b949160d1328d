"""Storage servers that wait to be somebody, and learners, which copy a shard to become one of its replicas.

Soft state of one term. A spare that the view has at its address is that replica, whoever leads; a learner says
itself who it is when it finds a new leader. So nothing here needs to outlive the leader.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ithaca.engines.scalog.messages.order import AdmissionIs
from ithaca.engines.scalog.messages.reporting import Enlisted
from ithaca.engines.scalog.ordering.entries import AddReplica
from ithaca.engines.scalog.ordering.leader import CutProposer
from ithaca.engines.scalog.ordering.reports import Report
from ithaca.engines.scalog.ordering.state import OrderingState
from ithaca.model.errors import AddressInUse, IthacaError, NoSuchReplica, NoSuchShard, Overloaded
from ithaca.model.limits import LEARNER_NUMBER_LEAP_MAX, LEARNER_UNASKED_S, REPLICA_NUMBER_MAX, SPARES_MAX
from ithaca.model.positions import LaneId
from ithaca.model.view import Address, Shard
from ithaca.protocol.codec import Received
from ithaca.runtime.connection import Connection
from ithaca.runtime.machine import monotonic_s

_log = logging.getLogger("ithaca.orderer")


@dataclass(slots=True)
class Learner:
    """A server that is to become a replica; without a connection it is on its way, or gone."""

    shard: int
    replica: int
    connection: Connection | None
    asked_s: float
    """When somebody was last known to want it."""
    is_complete: bool = False
    """Whether it has synced all that was due of its shard a moment ago: under load it never has all."""
    due: dict[LaneId, int] | None = None
    """How much was due when it last reported."""

    def looked_at(self, report: Report, due: dict[LaneId, int]) -> None:
        """It has reported, and this is due now: what is ordered, and the sealed parts."""
        before, self.due = self.due, due
        lengths = dict(report.lengths)
        self.is_complete = before is not None and all(
            lengths.get(lane, 0) >= length for lane, length in before.items() if lane in due
        )


class Spares:
    """Who waits, and who learns, by their addresses."""

    def __init__(self, state: OrderingState, learning: Callable[[], None] = lambda: None) -> None:
        """`learning` is called when somebody learns who did not."""
        self._state = state
        self._learning = learning
        self._waiting: dict[Address, tuple[Connection, Received]] = {}
        self._learners: dict[Address, Learner] = {}
        self._last: dict[int, int] = {}
        """The highest number of a learner of each shard."""

    def __len__(self) -> int:
        return len(self._waiting)

    def enlist(self, connection: Connection, request: Received, address: Address) -> None:
        """A spare is there: it is told who it is, as soon as somebody says so."""
        former = self._waiting.get(address)
        if former is None and len(self._waiting) >= SPARES_MAX:
            connection.fail(request, Overloaded(f"{SPARES_MAX} spares wait already: use some of them first"))
            return
        if former is not None and former[0] is not connection:
            former[0].close()
        self._waiting[address] = connection, request
        self.view_changed()
        learner = self._learners.pop(address, None)
        shard = None if learner is None else self._state.shards.by_number.get(learner.shard)
        if learner is None or shard is None or address not in self._waiting:
            return
        if learner.replica > shard.replica_last:  # else another took its place, and it is not needed
            self.learn(shard, address)  # its disk is empty: under its former number it would not be believed

    def lost(self, connection: Connection) -> None:
        """The connection has ended."""
        self._waiting = {address: each for address, each in self._waiting.items() if each[0] is not connection}
        for learner in self._learners.values():
            if learner.connection is connection:
                learner.connection = None

    def close(self) -> None:
        """The term is over: who waits looks for another leader."""
        waiting, self._waiting = self._waiting, {}
        for connection, _ in waiting.values():
            connection.close()

    def connections(self) -> Iterator[Connection]:
        """Those over which somebody waits."""
        return (connection for connection, _ in self._waiting.values())

    def view_changed(self) -> None:
        """Spares that have become replicas by the view are told so, and learners that have are learners no more."""
        if self._waiting or self._learners:
            for shard in self._state.shards.by_number.values():
                for each in shard.replicas:
                    self._learners.pop(each.address, None)
                    if each.address in self._waiting:
                        self._tell(each.address, shard.shard, each.replica)

    def take(self, count: int) -> list[Address] | None:
        """The addresses of so many spares; None when there are fewer."""
        return list(self._waiting)[:count] if len(self._waiting) >= count else None

    # Learners

    def learn(self, shard: Shard, address: Address | None = None) -> bool:
        """Have a spare copy this shard: the one at this address, or any; False when there is none."""
        address = next(iter(self._waiting), None) if address is None else address
        if address is None or address not in self._waiting:
            return False
        number = max(shard.replica_last, self._last.get(shard.shard, 0)) + 1
        if number > _number_max(shard) or len(self._learners) >= SPARES_MAX:
            _log.error("shard %d can have no replica %d, or too many learners are under way", shard.shard, number)
            return False
        self._last[shard.shard] = number
        self._learners[address] = Learner(shard.shard, number, self._waiting[address][0], monotonic_s())
        self._learning()
        _log.info("the spare at %s is to be replica %d of shard %d", address, number, shard.shard)
        self._tell(address, shard.shard, number)
        return True

    def learners_of(self, shard: int) -> int:
        """How many learners of the shard are there, or on their way."""
        return sum(learner.shard == shard for learner in self._learners.values())

    def forget_absent(self) -> None:
        """Learners that have not come back since the last call are given up."""
        for address, learner in list(self._learners.items()):
            if learner.connection is None:
                del self._learners[address]

    def joins(self, shard: Shard, replica: int, address: Address | None, connection: Connection) -> IthacaError | None:
        """A replica that the shard does not have wants to learn; why it cannot."""
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
        asked_s = former.asked_s if former is not None and is_known else monotonic_s()
        self._learners[address] = Learner(shard.shard, replica, connection, asked_s)
        self._learning()
        return None

    def due(self, leader: CutProposer, report: Report) -> AddReplica | None:
        """The entry that adds the learner that has just reported, if it is one and may be added."""
        number, replica = report.shard, report.replica
        if not self._learners:
            return None
        found = next(
            (
                (address, learner)
                for address, learner in self._learners.items()
                if (learner.shard, learner.replica) == (number, replica)
            ),
            None,
        )
        shard = self._state.shards.by_number.get(number)
        if found is None or shard is None:
            return None
        address, learner = found
        learner.looked_at(report, self._state.lengths_due(number))
        has_room = shard.phase == "finalized" or len(shard.replicas) < shard.size
        if not has_room or not leader.has_caught_up(number, replica):
            return None
        return AddReplica(number, shard.epoch, replica, address)

    def admission(self, number: int, address: Address) -> AdmissionIs | IthacaError:
        """Have the server at this address learn the shard, if it does not yet; how far it is."""
        shard = self._state.shards.by_number.get(number)
        if shard is None:
            return NoSuchShard(f"there is no shard {number}")
        for other in self._state.shards.by_number.values():
            for each in other.replicas:
                if each.address == address:
                    if other is shard:
                        return AdmissionIs("added", each.replica)
                    return AddressInUse(f"{address} is the address of replica {other.shard}/{each.replica}")
        learner = self._learners.get(address)
        if learner is None and self.learn(shard, address):
            learner = self._learners[address]
        if learner is not None and learner.shard == number:
            learner.asked_s = monotonic_s()
        if learner is not None and learner.shard != number:
            return AddressInUse(f"the server at {address} is learning shard {learner.shard}")
        if learner is None or learner.connection is None:
            return AdmissionIs("absent")
        return AdmissionIs("whole" if learner.is_complete else "learning", learner.replica)

    # Learners that nobody asks for any more

    def wanted(self, shard: int) -> None:
        """The shard is short of a replica: its learners are wanted."""
        for learner in self._learners.values():
            if learner.shard == shard:
                learner.asked_s = monotonic_s()

    def unasked(self) -> list[tuple[Address, Learner]]:
        """Those whom nobody has wanted for too long."""
        return [each for each in self._learners.items() if _left_s(each[1]) <= 0]

    def unasked_in_s(self) -> float | None:
        """In how long somebody may be among them; None without any learner."""
        return min(map(_left_s, self._learners.values()), default=None)

    def let_go(self, address: Address, learner: Learner) -> None:
        """Tell it that it is not needed, unless it is by now. Only who leads for certain may say so."""
        if self._learners.get(address) is not learner or _left_s(learner) > 0:
            return
        del self._learners[address]
        reason = (
            f"nobody has asked for replica {learner.replica} of shard {learner.shard} since {LEARNER_UNASKED_S:g} s"
        )
        _log.warning("%s: the server at %s is a spare again", reason, address)
        if learner.connection is not None:
            learner.connection.refuse(NoSuchReplica(f"{reason}: it was not added, and nobody counts on what it holds"))

    # Parts

    def _has_another(self, shard: int, replica: int, address: Address) -> bool:
        """Whether another server was given this number."""
        return any(
            (learner.shard, learner.replica) == (shard, replica) and other != address
            for other, learner in self._learners.items()
        )

    def _tell(self, address: Address, shard: int, replica: int) -> None:
        connection, request = self._waiting.pop(address)
        connection.answer(request, Enlisted(shard, replica))


def _number_max(shard: Shard) -> int:
    """The highest number that a learner may have: numbers are used once, and there is an end to them."""
    return min(REPLICA_NUMBER_MAX, shard.replica_last + LEARNER_NUMBER_LEAP_MAX)


def _left_s(learner: Learner) -> float:
    """How long it is still taken for wanted if nobody asks for it."""
    return learner.asked_s + LEARNER_UNASKED_S - monotonic_s()
