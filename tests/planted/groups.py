"""Bugs of groups of consumers."""

from ithaca.sim.configuration import Configuration
from tests.planted.bug import Bug


def _has_group(configuration: Configuration) -> bool:
    return configuration.group_members > 0


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
)
