"""How a cluster is: what each server says of itself, and the one verdict on it that everybody is told.

Servers are asked by whoever wants to know. What their words mean is known to the cluster's engine.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ithaca.model.server_place import ServerPlace


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """What one server said of itself, or why it said nothing."""

    place: ServerPlace
    status: dict[str, Any] | None
    silence: str = ""
    is_fenced: bool = False
    """Whether its supervisor knows that it has fenced itself."""

    @property
    def state(self) -> str:
        if self.is_fenced:
            return "fenced"
        return "unreachable" if self.status is None else str(self.status["state"])

    @property
    def called(self) -> str:
        """What people know it as: a spare that has become a replica is one, whatever its directory is called."""
        said = self.status or {}
        if self.place.role == "spare" and said.get("role") == "replica" and said.get("replica") is not None:
            return f"shard-{said['shard']}-replica-{said['replica']}"
        return self.place.name

    def fenced(self) -> "ServerStatus":
        """The same server, of which its supervisor knows that."""
        return replace(self, is_fenced=True)


class LaneStatus(NamedTuple):
    """One lane: whether it may grow, how much of it is ordered, and how much each server holds durably."""

    lane: str
    is_open: bool
    ordered: int
    durable: dict[str, int]


@dataclass(frozen=True, slots=True)
class Health:
    """What the servers' words add up to."""

    problems: list[str]
    """What is wrong, a sentence each; nothing when the cluster is healthy."""
    warnings: list[str]
    """What people should know of although nothing is wrong, a sentence each."""
    first: int | None
    tail: int | None
    """The first and the next position; None while nobody knows them."""
    log: str | None
    """The log's UUID, as any server knows it."""
    leader: ServerStatus | None = None
    """The server that leads the others, while one does."""
    unwell: tuple[str, ...] = ()
    """The names of servers that do not do all that they are there for."""


def plain_health(servers: Sequence[ServerStatus]) -> Health:
    """The verdict on servers each of which either serves or does not."""
    problems = [
        f"{each.called} does not answer: {each.silence}" if each.status is None else f"{each.called} is {each.state}"
        for each in servers
        if each.state != "serving"
    ]
    firsts = [each.status["first"] for each in servers if each.status and "first" in each.status]
    tails = [each.status["tail"] for each in servers if each.status and "tail" in each.status]
    unwell = tuple(each.called for each in servers if each.state != "serving")
    return Health(problems, [], max(firsts, default=None), max(tails, default=None), None, unwell=unwell)


def lanes_of(servers: Iterable[ServerStatus]) -> list[LaneStatus]:
    """The lanes that servers say they hold, in order."""
    lanes: dict[str, LaneStatus] = {}
    for server in servers:
        for each in (server.status or {}).get("lanes", ()):
            name = each["lane"]
            known = lanes.get(name, LaneStatus(name, False, 0, {}))
            durable = {**known.durable, server.called: each["durable"]}
            lanes[name] = LaneStatus(name, known.is_open or each["open"], max(known.ordered, each["ordered"]), durable)
    return [lanes[name] for name in sorted(lanes, key=_lane_order)]


def _lane_order(lane: str) -> tuple[int, ...]:
    return tuple(int(part) for part in lane.split("-") if part.isdecimal())
