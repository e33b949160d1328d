"""What is done about replicas that are silent, as the cluster's file says (`model.config.failures`).

Whatever that is: where it leaves a shard that orders nothing, its lanes are closed (`availability`). It is done by
ordered entries alone, which name what they presume: a lane's incarnation, or a shard's epoch. So it does no harm to act
on a replica that was only paused: when that comes back, it finds its lane closed, and whatever it had accepted and
nobody ordered is refused to whoever waits for it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, NamedTuple

from ithaca.engines.scalog.ordering.decisions.availability import Availability
from ithaca.engines.scalog.ordering.decisions.spares import LinkT, Spares, Warn
from ithaca.engines.scalog.ordering.entries import CloseLane, Finalize, OrderingEntry, RegisterShard, RemoveReplica
from ithaca.engines.scalog.ordering.liveness import Liveness, Member
from ithaca.engines.scalog.ordering.outcomes import Outcome, RefusedEntry
from ithaca.engines.scalog.ordering.state import OrderingState
from ithaca.model.config.failures import FailurePolicy
from ithaca.model.limits import FIRST_SIGN_S, SHARD_NUMBER_MAX
from ithaca.model.positions import LaneId
from ithaca.model.view import Address, Replica, Shard

LOOKS = 8
"""How often replicas are looked at in the time after which a silent one has failed."""


class Act(NamedTuple):
    """Have this entry ordered because of a silent replica; then say `ordered` or `not_ordered`."""

    shard: int
    entry: OrderingEntry
    why: str


class Complete(NamedTuple):
    """Have spares learn what these shards are short of (`Spares.complete`)."""

    shards: tuple[Shard, ...]
    forgets_absent: bool


FailureEffect = Act | Complete | Warn


@dataclass(frozen=True, slots=True)
class _Successor:
    """A shard that is being registered to take the place of another."""

    number: int
    addresses: tuple[Address, ...]
    why: str


class Failures(Generic[LinkT]):
    """Watches the replicas of one term. `now_us` is a monotonic clock."""

    def __init__(
        self,
        policy: FailurePolicy,
        state: OrderingState,
        spares: Spares[LinkT],
        now_us: int,
        *,
        leaves_shards: bool = True,
    ) -> None:
        """`leaves_shards`: whether the lanes of a shard that cannot order are closed."""
        self._leaves_shards = leaves_shards
        self._action = policy.action
        self._state = state
        self._spares = spares
        self.look_s = policy.detection_ms / 1000 / LOOKS
        """How often to `look`."""
        self._liveness = Liveness(
            timeout_us=policy.detection_ms * 1000, first_us=int(FIRST_SIGN_S * 1e6), look_us=int(self.look_s * 1e6)
        )
        self.availability = Availability(state, self._liveness, policy.detection_ms * 1000)
        self._looked_us = now_us
        self._looks = 0
        self._whole: set[Member] = set()
        """Replicas that have last said that they lack nothing."""
        self._acting: set[int] = set()
        """Shards about which an entry is under way."""
        self._successors: dict[int, _Successor] = {}
        """Of shards that are to be finalized, while they are being registered."""
        self._next_shard = 0

    def heard(self, shard: int, replica: int, is_complete: bool | None = None) -> None:
        """A sign of life; a report says nothing about what else is there."""
        self._liveness.heard((shard, replica))
        if is_complete is not None:
            (self._whole.add if is_complete else self._whole.discard)((shard, replica))

    def heard_all(self, members: Iterable[Member]) -> None:
        """Reports of all of these came."""
        self._liveness.heard_all(members)

    def look(self, now_us: int) -> list[FailureEffect]:
        """Look who is silent, and answer that. One entry at a time is under way about a shard."""
        shards = [shard for shard in self._state.shards.by_number.values() if shard.phase != "finalized"]
        members = {(shard.shard, each.replica) for shard in shards for each in shard.replicas}
        self.availability.look(self._liveness.look(now_us - self._looked_us, members))
        self._looked_us = now_us
        effects: list[FailureEffect] = []
        for shard in shards:
            if shard.shard not in self._acting:
                effects += self._look_at(shard)
        if self._action == "replace":
            self._looks += 1
            effects.append(Complete(tuple(shards), forgets_absent=self._looks % LOOKS == 0))
        return effects

    def _look_at(self, shard: Shard) -> list[FailureEffect]:
        silent = self.availability.silent(shard)
        # One that has never joined is missed only if it was added: it ran before that, and copied the shard.
        failed = [each for each in shard.replicas if each.replica in silent and (each.boot or shard.epoch > 1)]
        effects = self._answer(shard, failed) if failed else []
        return effects if shard.shard in self._acting else [*effects, *self._close_next(shard.shard)]

    def ordered(self, shard: int, outcomes: list[Outcome]) -> list[FailureEffect]:
        """The entry about this shard was applied."""
        refused = [each for each in outcomes if isinstance(each, RefusedEntry)]
        successor = self._successors.pop(shard, None)
        if successor is not None and not refused:
            return [Act(shard, Finalize(shard), f"{successor.why}: shard {successor.number} takes its place")]
        if successor is not None:
            self._next_shard = successor.number + 1  # the number was used once
        self._acting.discard(shard)
        if refused:
            return [Warn(f"shard {shard}: {type(each.entry).__name__} was refused: {each.reason}") for each in refused]
        return self._close_next(shard)

    def not_ordered(self, shard: int) -> None:
        """The entry about this shard was not taken: the next look tells what is to be done."""
        self._acting.discard(shard)
        self._successors.pop(shard, None)

    # The answers

    def _answer(self, shard: Shard, failed: list[Replica]) -> list[FailureEffect]:
        match self._action:
            case "mask":
                return self._mask(shard, failed)
            case "replace":
                return self._remove(shard, failed)
            case "finalize-and-add":
                return self._finalize(shard, failed)
            case "none":
                return []

    def _mask(self, shard: Shard, failed: list[Replica]) -> list[FailureEffect]:
        for each in failed:
            if shard.masking and each.is_open:
                lane = LaneId(shard.shard, each.replica, each.incarnation)
                return self._act(shard, CloseLane(lane), f"replica {each.replica} is silent: lane {lane} is closed")
        return []

    def _remove(self, shard: Shard, failed: list[Replica]) -> list[FailureEffect]:
        # What is ordered is on f+1 replicas: a pause of one must not become the loss of what another has to fetch yet.
        gone = failed[0].replica
        whole = [each for each in shard.replicas if each not in failed and (shard.shard, each.replica) in self._whole]
        if len(whole) < shard.size - shard.f:
            return [Warn(f"replica {gone} of shard {shard.shard} is silent, and too few others have all")]
        if not len(self._spares) + self._spares.learners_of(shard.shard):
            return [Warn(f"replica {gone} of shard {shard.shard} is silent, and no spare waits")]
        return self._act(
            shard, RemoveReplica(shard.shard, shard.epoch, gone), f"replica {gone} is silent: it is removed"
        )

    def _finalize(self, shard: Shard, failed: list[Replica]) -> list[FailureEffect]:
        """The new shard is there first: then nobody ever has nowhere to go."""
        why = f"replica {failed[0].replica} is silent"
        if shard.phase == "finalizing":  # somebody has seen to the rest
            return self._act(shard, Finalize(shard.shard), f"{why}: it is finalized at once")
        # Shards that fail together get different spares and numbers: else all but one of them would be refused.
        reserved = [address for each in self._successors.values() for address in each.addresses]
        addresses = self._spares.take(shard.size, reserved)
        if addresses is None:
            free = len(self._spares) - len(reserved)
            return [Warn(f"{why} in shard {shard.shard}, and {free} spares are free: {shard.size} are needed")]
        under_way = [each.number + 1 for each in self._successors.values()]
        number = max(self._next_shard, *under_way, *(each + 1 for each in self._state.shards.by_number))
        if number > SHARD_NUMBER_MAX:
            return [Warn(f"{why} in shard {shard.shard}, and no number above {SHARD_NUMBER_MAX} is left for another")]
        self._successors[shard.shard] = _Successor(number, tuple(addresses), why)
        entry = RegisterShard(number, shard.f, shard.masking, tuple(enumerate(addresses)))
        return self._act(shard, entry, f"{why}: shard {number} is made of spares")

    def _close_next(self, number: int) -> list[FailureEffect]:
        """Of a shard that orders nothing the lanes are closed one after the other, if there is elsewhere to go."""
        lane = self.availability.lane_to_close(number) if self._leaves_shards else None
        if lane is None:
            return []
        self._acting.add(number)
        why = f"{self.availability.why_stuck(number)}: lane {lane} is closed, and what waits goes to other shards"
        return [Act(number, CloseLane(lane), why)]

    def _act(self, shard: Shard, entry: OrderingEntry, why: str) -> list[FailureEffect]:
        self._acting.add(shard.shard)
        return [Act(shard.shard, entry, why)]
