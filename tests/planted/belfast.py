"""Planted bugs of the engine `belfast`: its rules, one by one."""

from ithaca.model.limits import MIB
from ithaca.sim.belfast.lost_lanes import LOSE_LANE
from ithaca.sim.belfast.speculators import speculators_of
from ithaca.sim.configuration import Configuration
from tests.planted.bug import Bug

_SPECULATION = "ithaca.engines.belfast.speculation"
_CORE = "ithaca.engines.belfast.replica.core"


def _masks(drawn: Configuration) -> bool:
    return drawn.masking and LOSE_LANE in drawn.faults


def _speculates(drawn: Configuration) -> bool:
    return speculators_of(drawn.seed) > 0 and drawn.slots.mode == "fixed"


def _fails(drawn: Configuration) -> bool:
    return LOSE_LANE in drawn.faults and speculators_of(drawn.seed) > 0


def _is_cut_off(drawn: Configuration) -> bool:
    return LOSE_LANE in drawn.faults


def _forgets(drawn: Configuration) -> bool:
    return _speculates(drawn) and drawn.limits["SPECULATED_BYTES_MAX"] < MIB


def _publishes(drawn: Configuration) -> bool:
    return drawn.publishers > 0 and drawn.slots.mode == "fixed"


BELFAST = (
    Bug(
        "slots-not-durable",
        "a cut counts as done for a lane that has passed it, durable or not",
        f"{_SPECULATION}.progress",
        "min((cut for cut, length in lane.used.items() if length > lane.durable), default=lane.passed)",
        "lane.passed",
        engine="belfast",
    ),
    Bug(
        "slots-longest-ack",
        "a lane is durable as far as the replica is that has most of it",
        f"{_SPECULATION}.reports",
        "    return lengths[copies - 1] if len(lengths) >= copies else 0",
        "    return lengths[0] if lengths else 0",
        engine="belfast",
    ),
    Bug(
        "slots-other-prefix",
        "a primary takes its slots for those at the beginning of the round",
        f"{_SPECULATION}.windows",
        "        return self.base + round_ * self.of_round.slots + self.of_round.prefix",
        "        return self.base + round_ * self.of_round.slots",
        engine="belfast",
    ),
    Bug(
        "slots-watermark-too-high",
        "speculators are told that slots are passed whose records are not durable",
        f"{_SPECULATION}.placement",
        "        if self._unsynced:\n            return self._unsynced[0].position\n",
        "",
        engine="belfast",
        needs=_speculates,
    ),
    Bug(
        "slots-since-forgotten",
        "a watermark counts for slots of which a stream has not sent the records",
        "ithaca.engines.belfast.client.speculation",
        "            if watermark and self._core.position >= since:\n",
        "            if watermark:\n",
        engine="belfast",
        needs=_forgets,
    ),
    Bug(
        "slots-confirmed-early",
        "what is delivered counts as confirmed, whatever is ordered",
        f"{_SPECULATION}.delivery",
        "        reached = min(self._tails.get(self.attempt, 0), self.position)",
        "        reached = self.position",
        engine="belfast",
        needs=_speculates,
    ),
    Bug(
        "slots-failure-untold",
        "what a failed lane had delivered stays, at the positions that it was promised",
        "ithaca.engines.belfast.client.speculation",
        "        elif message.attempt > self._attempt:\n            self._fail(message)\n",
        "",
        engine="belfast",
        needs=_fails,
    ),
    Bug(
        "slots-lane-goes-on",
        "a lane whose primary started again is neither taken over nor ended",
        "ithaca.engines.belfast.leading.keeping",
        "            is_due = has_waited and not is_short\n",
        "            is_due = False\n",
        engine="belfast",
        needs=_is_cut_off,
    ),
    Bug(
        "slots-unwritten-kept",
        "a lane that ends counts what waited for slots as written",
        "ithaca.engines.belfast.replica.core",
        "        copy.received = copy.received - waiting if self._placement is None else self._placement.length\n",
        "",
        engine="belfast",
        needs=_is_cut_off,
    ),
    Bug(
        "slots-empty-anywhere",
        "a position counts as empty without a word of the shard that owns it",
        "ithaca.engines.belfast.client.reading",
        "        if answer.shard is not None and await self._lacks(answer.shard, position, deadline):\n",
        "        if answer.shard is not None:\n",
        engine="belfast",
        needs=_is_cut_off,
    ),
    Bug(
        "takeover-shortest-copy",
        "the shortest copy among those that promised wins",
        f"{_SPECULATION}.takeover",
        "    return min(promised, key=lambda replica: (-promised[replica], replica))",
        "    return min(promised, key=lambda replica: (promised[replica], replica))",
        engine="belfast",
        needs=_masks,
    ),
    Bug(
        "takeover-not-ordered",
        "a lane that is taken over is closed where it is, and not ordered first",
        f"{_SPECULATION}.takeover",
        "            reached = ends[cut] = min(each.stop, length, reached + left)\n",
        "            return {}, ordered\n",
        engine="belfast",
        needs=_masks,
    ),
    Bug(
        "takeover-one-promise",
        "one promise is enough for a takeover",
        f"{_SPECULATION}.takeover",
        "                if len(self._promised) >= self._copies:\n                    return self._copy()",
        "                if self._promised:\n                    return self._copy()",
        engine="belfast",
        needs=_masks,
    ),
    Bug(
        "takeover-promised-acks",
        "a follower that has promised acknowledges on",
        _CORE,
        "        return self._ack(lane) if self._promises.may_acknowledge(lane) else None",
        "        return self._ack(lane)",
        engine="belfast",
        needs=_masks,
    ),
    Bug(
        "takeover-promised-reports",
        "a replica that has promised goes on to tell the leader how much of the lane it syncs",
        _CORE,
        "        if not isinstance(effect, SendReport) or not self._promises.lanes:\n",
        "        if True:\n",
        engine="belfast",
        needs=_masks,
    ),
    Bug(
        "takeover-promised-primary",
        "a primary that has promised reports and delivers on",
        _CORE,
        "        return self.own_lane is not None and not self._promises.may_acknowledge(self.own_lane)",
        "        return False",
        engine="belfast",
        needs=_masks,
    ),
    Bug(
        "takeover-promise-unsynced",
        "a promise is answered before it is on the disk",
        f"{_SPECULATION}.takeover",
        "        self._syncing.add(lane)\n        return [SyncPromise(lane)]",
        "        self._syncing.add(lane)\n        return [AnswerPromise(lane)]",
        engine="belfast",
        needs=_masks,
    ),
    Bug(
        "takeover-places-not-copied",
        "a follower writes batches without their places",
        "ithaca.engines.scalog.replica.settling",
        "        self._effects.append(Write(copy.lane, batch, position))",
        "        self._effects.append(Write(copy.lane, batch))",
        engine="belfast",
        needs=_masks,
    ),
    Bug(
        "takeover-places-not-written",
        "a batch goes to the disk without its place",
        "ithaca.runtime.lane_writer",
        "        self._put((place(position, 0), batch) if position else (batch,))",
        "        self._put((batch,))",
        engine="belfast",
        needs=_masks,
    ),
    Bug(
        "slots-passed-too-short",
        "a cut that is passed ends with what is durable, and not with what is placed in it",
        f"{_SPECULATION}.placement",
        "                self._used.append((self._cut, self.length))",
        "                self._used.append((self._cut, max(self.durable, self.length - 1)))",
        engine="belfast",
    ),
    Bug(
        "slots-silent-lane-done",
        "a new leader counts every cut as done for a lane of which it has not heard",
        f"{_SPECULATION}.progress",
        "        return 0 if known is None else known.done",
        "        return 1 << 62 if known is None else known.done",
        engine="belfast",
        needs=_is_cut_off,
    ),
    Bug(
        "slots-publication-overtakes",
        "a publication is ordered before the windows that are before it",
        f"{_SPECULATION}.order",
        "        while self.reserved and self.reserved[0][0] == self.tail:",
        "        while self.reserved:",
        engine="belfast",
        needs=_publishes,
    ),
    Bug(
        "slots-delivered-unsynced",
        "speculators are sent what is written, durable or not",
        "ithaca.engines.belfast.server.replica.speculators",
        "            if batch.end_lsn <= durable:\n                due.append((batch, position))",
        "            due.append((batch, position))",
        engine="belfast",
        needs=_speculates,
    ),
    Bug(
        "slots-idle-clock",
        "a lane passes cuts in which it has nothing by the clock, while somebody speculates",
        f"{_SPECULATION}.placement",
        "        return bool(self._speculators and self._taken)",
        "        return bool(self._speculators and self._cut is not None)",
        engine="belfast",
        needs=_speculates,
    ),
)
