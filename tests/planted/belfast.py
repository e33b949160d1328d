"""Planted bugs of the engine `belfast`: its rules, one by one."""

from tests.planted.bug import Bug

_SPECULATION = "ithaca.engines.belfast.speculation"

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
        f"{_SPECULATION}.acks",
        "    return lengths[copies - 1] if len(lengths) >= copies else 0",
        "    return lengths[0] if lengths else 0",
        engine="belfast",
    ),
    Bug(
        "slots-old-attempt",
        "a range of cuts counts whatever attempt it was proposed in",
        f"{_SPECULATION}.order",
        (
            '            return "the order is free"\n'
            "        if entry.attempt != self.attempt:\n"
            '            return "another attempt"\n'
            "        if entry.start"
        ),
        '            return "the order is free"\n        if entry.start',
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
    ),
    Bug(
        "slots-since-forgotten",
        "a watermark counts for slots of which a stream has not sent the records",
        "ithaca.engines.belfast.client.speculation",
        "            if self._core.position >= since:\n",
        "            if True:\n",
        engine="belfast",
    ),
    Bug(
        "slots-confirmed-early",
        "what is delivered counts as confirmed, whatever is ordered",
        f"{_SPECULATION}.delivery",
        "        reached = min(self._tails.get(self.attempt, 0), self.position)",
        "        reached = self.position",
        engine="belfast",
    ),
    Bug(
        "slots-failure-untold",
        "what a failed lane had delivered stays, at the positions that it was promised",
        "ithaca.engines.belfast.client.speculation",
        "        elif message.attempt > self._attempt:\n            self._fail(message)\n",
        "",
        engine="belfast",
    ),
    Bug(
        "slots-lane-goes-on",
        "a lane whose primary started again is not ended",
        "ithaca.engines.belfast.leading.keeping",
        "        if not is_gone and now_us - since_us < self._detection_us:\n            return []\n",
        "        return []\n",
        engine="belfast",
    ),
    Bug(
        "slots-shard-stays",
        "the order is fixed again while a shard leaves, which so never does",
        "ithaca.engines.belfast.leading.leader",
        '"free" if self.changes or self._is_shard_leaving() else',
        '"free" if self.changes else',
        engine="belfast",
    ),
    Bug(
        "slots-unwritten-kept",
        "a lane that ends counts what waited for slots as written",
        "ithaca.engines.belfast.replica.core",
        "            copy.received = written\n",
        "",
        engine="belfast",
    ),
    Bug(
        "slots-empty-anywhere",
        "a position counts as empty without a word of the shard that owns it",
        "ithaca.engines.belfast.client.reading",
        "        if answer.shard is not None and await self._lacks(answer.shard, position, deadline):\n",
        "        if answer.shard is not None:\n",
        engine="belfast",
    ),
)
