"""The verdict on a cluster of this engine, by what its servers say of themselves."""

from collections.abc import Iterable, Sequence

from ithaca.model.health import Health, ServerStatus, lanes_of
from ithaca.model.interface import ClusterStatus

_WELL = {"leader", "follower", "waiting", "removed"}
"""States in which a server does all that it is there for."""


def health(servers: Sequence[ServerStatus]) -> Health:
    """What all servers of a cluster say, as one verdict. The leader's word holds for positions."""
    leaders = [each for each in servers if each.status is not None and each.state == "leader"]
    leader = max(leaders, key=lambda each: int((each.status or {}).get("term", 0)), default=None)
    words = {} if leader is None else leader.status or {}
    logs = dict.fromkeys(str(each.status["log"]) for each in servers if each.status and each.status.get("log"))
    problems = list(_of_servers(servers))
    if leader is None:
        problems.append("no server leads, so nothing can be appended: more than half of the servers must be up")
    elif not words.get("configured"):
        problems.append("the cluster is not configured yet")
    if len(logs) > 1:
        problems.append(f"servers belong to different logs: {', '.join(logs)}")
    return Health(
        problems,
        [],
        words.get("first"),
        words.get("tail"),
        next(iter(logs), None),
        leader=leader,
        unwell=tuple(each.place.name for each in servers if each.state not in _WELL),
    )


def _of_servers(servers: Iterable[ServerStatus]) -> Iterable[str]:
    for server in servers:
        place = server.place
        name = place.name if place.number else f"the server at {place.address}"
        if server.is_fenced:
            yield f"{name} has fenced itself, because a sync of its disk failed; it stays down"
        elif server.status is None:
            yield f"{name} does not answer: {server.silence}"
        elif server.state not in _WELL:
            yield f"{name} is {server.state}"
        elif server.status.get("damage"):
            yield (
                f"{name} has a damaged data log, and others serve what it lacks: put another one into its place "
                f"(ithaca orderer replace {place.number}): {server.status['damage']}"
            )


def cluster_status(servers: Sequence[ServerStatus]) -> ClusterStatus:
    """The verdict as a handle gives it."""
    found = health(servers)
    words = [each.status for each in servers if each.status is not None]
    silent = [
        {"address": str(each.place.address), "role": "orderer", "state": each.state, "error": each.silence}
        for each in servers
        if each.status is None
    ]
    return ClusterStatus(
        healthy=not found.problems,
        problems=tuple(found.problems),
        tail=found.tail or max((each.get("tail", 1) for each in words), default=1),
        first=found.first or max((each.get("first", 1) for each in words), default=1),
        servers=(*words, *silent),
        lanes=tuple((each.lane, min(each.durable.values()), each.ordered) for each in lanes_of(servers)),
        warnings=tuple(found.warnings),
    )
