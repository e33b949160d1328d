"""Bugs of groups of consumers."""

from ithaca.sim.configuration import Configuration
from tests.planted.bug import Bug


def _has_group(configuration: Configuration) -> bool:
    return configuration.group_members > 0


def _writes(configuration: Configuration) -> bool:
    return configuration.group_members > 0 and configuration.takers_write


GROUPS = (
    Bug(
        "group-fenced-commit",
        "a commit of a part counts whoever has opened it since",
        "ithaca.consumers.table",
        "part is not None and part.owner and part.epoch == command.epoch else None",
        "part is not None and part.owner else None",
        needs=_has_group,
        engine="raft",
    ),
    Bug(
        "group-handed-over-early",
        "a member hands a part over before it has committed what it was handed out of it",
        "ithaca.client.consuming.awaited.member",
        "        finished = self._parts.finished\n        if finished:\n            self._parts.drop(finished)\n",
        "        finished = self._parts.leaving\n        if finished:\n"
        "            self._parts.drop(finished, is_known=True)\n",
        needs=_has_group,
        engine="raft",
    ),
    Bug(
        "group-two-owners",
        "a part that was asked back is given to another before its holder has finished",
        "ithaca.consumers.assigning",
        "self._asked_back.setdefault(part, now_s + member.lease_s)",
        "self._asked_back.setdefault(part, now_s)",
        needs=_has_group,
        engine="raft",
    ),
    Bug(
        "group-written-uncommitted",
        "a publication counts without its commit: what was taken is written for, and the position stays",
        "ithaca.engines.scalog.ordering.state",
        "            self.consumers.apply(ConsumerChanges(entry.consumed, self._raised_time_us(entry.time_us)))\n",
        "            pass\n",
        needs=_writes,
    ),
    Bug(
        "group-committed-unwritten",
        "what was consumed is committed, although the parts that were written for it are gone",
        "ithaca.engines.scalog.ordering.state",
        "        answer = self._consumed(entry) if (said := self.parts.answer(entry)) is None else said\n",
        "        answer = self.parts.answer(entry) if (said := self._consumed(entry)) is None else said\n",
        needs=_writes,
    ),
    Bug(
        "group-written-apart",
        "a transaction publishes what it wrote, and commits a second later",
        "ithaca.client.consuming.awaited.transaction",
        "        await self._log.publish_once([part], consumed={self._consumer: position})\n",
        "        await self._log.publish_once([part])\n"
        "        await __import__('asyncio').sleep(1)\n"
        "        await self._consumer.commit(position)\n",
        needs=_writes,
    ),
    Bug(
        "group-written-uncommitted-slots",
        "a publication that waits for its slots counts without its commit",
        "ithaca.engines.belfast.speculation.state",
        "        refused = self._consumed(entry)\n",
        "        refused = None\n",
        needs=_writes,
        engine="belfast",
    ),
)
