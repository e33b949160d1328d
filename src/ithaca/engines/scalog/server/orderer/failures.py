"""What the leader does about replicas that are silent, as the cluster's file says (`model.config.failures`).

It acts through ordered entries alone, which name what they presume: a lane's incarnation, or a shard's epoch. So it
does no harm to act on a replica that was only paused: when that comes back, it finds its lane closed, and whatever it
had accepted and nobody ordered is refused to whoever waits for it.
"""

import logging
from collections.abc import Callable

from ithaca.engines.scalog.ordering.entries import CloseLane, Finalize, OrderingEntry, RegisterShard, RemoveReplica
from ithaca.engines.scalog.ordering.liveness import Liveness, Member
from ithaca.engines.scalog.ordering.outcomes import Outcome, RefusedEntry
from ithaca.engines.scalog.ordering.state import OrderingState
from ithaca.engines.scalog.server.orderer.spares import Spares
from ithaca.model.config.cluster import ClusterFile
from ithaca.model.errors import IthacaError
from ithaca.model.limits import FIRST_SIGN_S, SHARD_NUMBER_MAX
from ithaca.model.positions import LaneId
from ithaca.model.view import Replica, Shard
from ithaca.runtime.machine import monotonic_ns

_log = logging.getLogger("ithaca.orderer")
_LOOKS = 8
"""How often replicas are looked at in the time after which a silent one has failed."""

Submit = Callable[[OrderingEntry, Callable[[list[Outcome]], None], Callable[[IthacaError], None]], None]
"""Has an entry ordered; then one of the two is called."""


class Failures:
    """Watches the replicas of one term."""

    def __init__(self, file: ClusterFile, state: OrderingState, spares: Spares, submit: Submit) -> None:
        policy = file.failures
        self._answer = policy.action
        self._state = state
        self._spares = spares
        self._submit_entry = submit
        self.look_s = policy.detection_ms / 1000 / _LOOKS
        """How often to `look`."""
        self._liveness = Liveness(
            timeout_us=policy.detection_ms * 1000, first_us=int(FIRST_SIGN_S * 1e6), look_us=int(self.look_s * 1e6)
        )
        self._looked_us = monotonic_ns() // 1000
        self._looks = 0
        self._whole: set[Member] = set()
        """Replicas that have last said that they lack nothing."""
        self._acting: set[int] = set()
        """Shards about which an entry is under way."""
        self._next_shard = 0
        self._warned: set[str] = set()

    @property
    def is_on(self) -> bool:
        """Whether there is anything to watch for."""
        return self._answer != "none"

    def heard(self, shard: int, replica: int, is_complete: bool | None = None) -> None:
        """A sign of life; a report says nothing about what else is there."""
        self._liveness.heard((shard, replica))
        if is_complete is not None:
            (self._whole.add if is_complete else self._whole.discard)((shard, replica))

    def look(self) -> None:
        """Look who is silent, and answer that."""
        now_us = monotonic_ns() // 1000
        shards = [shard for shard in self._state.shards.by_number.values() if shard.phase != "finalized"]
        # One that has never joined is missed only if it was added: it ran before that, and copied the shard.
        members = {
            (shard.shard, each.replica) for shard in shards for each in shard.replicas if each.boot or shard.epoch > 1
        }
        self._liveness.look(now_us - self._looked_us, members)
        self._looked_us = now_us
        failed: dict[int, list[int]] = {}
        for shard_number, replica in self._liveness.failed():
            failed.setdefault(shard_number, []).append(replica)
        for shard in shards:
            if shard.shard not in self._acting and shard.shard in failed:
                self._act(shard, [each for each in shard.replicas if each.replica in failed[shard.shard]])
        if self._answer == "replace":
            self._complete(shards)

    def _act(self, shard: Shard, failed: list[Replica]) -> None:
        match self._answer:
            case "mask":
                self._mask(shard, failed)
            case "replace":
                self._remove(shard, failed)
            case "finalize-and-add":
                self._finalize(shard, failed)

    # The answers

    def _mask(self, shard: Shard, failed: list[Replica]) -> None:
        for each in failed:
            if shard.masking and each.is_open:
                lane = LaneId(shard.shard, each.replica, each.incarnation)
                self._order(shard, CloseLane(lane), f"replica {each.replica} is silent: lane {lane} is closed")
                return

    def _remove(self, shard: Shard, failed: list[Replica]) -> None:
        # What is ordered is on f+1 replicas: a pause of one must not become the loss of what another has to fetch yet.
        whole = [each for each in shard.replicas if each not in failed and (shard.shard, each.replica) in self._whole]
        if len(whole) < shard.size - shard.f:
            self._warn(f"replica {failed[0].replica} of shard {shard.shard} is silent, and too few others have all")
        elif not len(self._spares) + self._spares.learners_of(shard.shard):
            self._warn(f"replica {failed[0].replica} of shard {shard.shard} is silent, and no spare waits")
        else:
            gone = failed[0].replica
            self._order(
                shard, RemoveReplica(shard.shard, shard.epoch, gone), f"replica {gone} is silent: it is removed"
            )

    def _complete(self, shards: list[Shard]) -> None:
        """Have spares learn what shards are short of, whoever removed it."""
        self._looks += 1
        if self._looks % _LOOKS == 0:
            self._spares.forget_absent()
        for shard in shards:
            if len(shard.replicas) < shard.size:
                self._spares.wanted(shard.shard)
            missing = shard.size - len(shard.replicas) - self._spares.learners_of(shard.shard)
            for _ in range(missing):
                if not self._spares.learn(shard):
                    self._warn(
                        f"shard {shard.shard} has {len(shard.replicas)} of {shard.size} replicas: no spare waits"
                    )

    def _finalize(self, shard: Shard, failed: list[Replica]) -> None:
        """The new shard is there first: then nobody ever has nowhere to go."""
        why = f"replica {failed[0].replica} is silent"
        if shard.phase == "finalizing":  # somebody has seen to the rest
            self._order(shard, Finalize(shard.shard), f"{why}: it is finalized at once")
            return
        addresses = self._spares.take(shard.size)
        if addresses is None:
            self._warn(f"{why} in shard {shard.shard}, and {len(self._spares)} spares wait: {shard.size} are needed")
            return
        number = self._next_shard = max(self._next_shard, *(each + 1 for each in self._state.shards.by_number))
        if number > SHARD_NUMBER_MAX:
            self._warn(f"{why} in shard {shard.shard}, and no number above {SHARD_NUMBER_MAX} is left for another")
            return
        entry = RegisterShard(number, shard.f, shard.masking, tuple(enumerate(addresses)))

        def registered(outcomes: list[Outcome]) -> None:
            refusal = next((each for each in outcomes if isinstance(each, RefusedEntry)), None)
            if refusal is None:
                self._order(shard, Finalize(shard.shard), f"{why}: shard {number} takes its place")
            else:
                self._next_shard += 1  # the number was used once
                self._acted(shard.shard, outcomes)

        self._acting.add(shard.shard)
        self._submit_entry(entry, registered, lambda error: self._acting.discard(shard.shard))

    # Parts

    def _order(self, shard: Shard, entry: OrderingEntry, what: str) -> None:
        _log.warning("shard %d: %s", shard.shard, what)
        self._acting.add(shard.shard)
        self._submit_entry(
            entry,
            lambda outcomes: self._acted(shard.shard, outcomes),
            lambda error: self._acting.discard(shard.shard),
        )

    def _acted(self, shard: int, outcomes: list[Outcome]) -> None:
        self._acting.discard(shard)
        for outcome in outcomes:
            if isinstance(outcome, RefusedEntry):
                _log.warning("shard %d: %s was refused: %s", shard, type(outcome.entry).__name__, outcome.reason)

    def _warn(self, text: str) -> None:
        """Say it once in a term."""
        if text not in self._warned:
            self._warned.add(text)
            _log.warning("%s", text)
