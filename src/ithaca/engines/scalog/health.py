"""The verdict on a cluster of this engine: what is wrong, in words, by what its servers say of themselves.

The leader's word holds for shards and positions. Where nobody leads, that of the orderer that has applied most holds
for shards, and nobody's for positions.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import astuple

from ithaca.engines.scalog.missing import missing_records
from ithaca.model.health import Health, ServerStatus
from ithaca.model.limit_use import limit_warnings
from ithaca.model.limits import CLOCK_WARNED_S

_WELL = {"leader", "follower", "serving", "finalized", "reclaimed", "attached", "waiting", "removed"}
"""States in which a server does all that it is there for."""

_Words = dict[str, Any]


def health(servers: Sequence[ServerStatus]) -> Health:
    """What all servers of a cluster say, as one verdict."""
    leader = _leader_of(servers)
    words = {} if leader is None else leader.status or {}
    logs = Counter(str(each.status["log"]) for each in servers if each.status is not None and each.status.get("log"))
    return Health(
        problems=[
            *_of_servers(servers, _best_informed(servers)),
            *_of_order(leader),
            *_of_shards(servers, _best_informed(servers)),
            *_missing(servers, _best_informed(servers)),
            *_of_logs(logs),
        ],
        warnings=[
            *_trims_announced(words),
            *_clocks_apart(words),
            *limit_warnings((_name(each), each.status) for each in servers if each.status is not None),
        ],
        first=words.get("first"),
        tail=words.get("tail"),
        log=next(iter(logs), None),
        leader=leader,
        unwell=tuple(each.called for each in servers if each.state not in _WELL),
    )


def _leader_of(servers: Iterable[ServerStatus]) -> ServerStatus | None:
    """The orderer that leads; of two that say so, the one with the higher term."""
    leaders = [each for each in servers if each.status is not None and each.state == "leader"]
    return max(leaders, key=lambda each: _number(each, "term"), default=None)


def _best_informed(servers: Sequence[ServerStatus]) -> _Words:
    """What is said by the leader or, where nobody leads, by the orderer that has applied most."""
    leader = _leader_of(servers)
    orderers = [each for each in servers if each.place.role == "orderer" and each.status is not None]
    best = leader or max(orderers, key=lambda each: _number(each, "applied"), default=None)
    return {} if best is None else best.status or {}


def _number(server: ServerStatus, name: str) -> int:
    return int((server.status or {}).get(name, 0))


def _name(server: ServerStatus) -> str:
    """As people know it; of an orderer that never answered only the address is known."""
    place = server.place
    return f"orderer at {place.address}" if place.role == "orderer" and not place.number else server.called


def _of_servers(servers: Iterable[ServerStatus], order: _Words) -> Iterable[str]:
    for server in servers:
        name = _name(server)
        if server.is_fenced:
            yield f"{name} has fenced itself, because a sync of its disk failed; it stays down"
        elif server.status is None:
            if _is_wanted(server, order):
                yield f"{name} does not answer: {server.silence}"
        elif _is_another(server):
            yield f"{name} answers as replica {server.status['shard']}/{server.status['replica']}"
        elif server.state not in _WELL:
            yield f"{name} is {server.state}"
        yield from _damage(server)


def _is_wanted(server: ServerStatus, order: _Words) -> bool:
    """Whether anybody waits for this server: not for a replica that was removed."""
    place = server.place
    if place.role != "replica":
        return True
    numbers = [
        each["replica"]
        for shard in order.get("shards", ())
        if shard["shard"] == place.shard
        for each in shard["replicas"]
    ]
    return not numbers or place.number in numbers


def _is_another(server: ServerStatus) -> bool:
    """Whether a replica answers where another one is expected."""
    status = server.status or {}
    place = server.place
    return (
        place.role == "replica"
        and "replica" in status
        and (status.get("shard"), status["replica"]) != (place.shard, place.number)
    )


def _damage(server: ServerStatus) -> Iterable[str]:
    """Lanes that a replica has lost, or is about to give up."""
    for damaged in (server.status or {}).get("damaged", ()):
        name, lane = _name(server), damaged["lane"]
        if damaged["kept"] is None:
            yield f"{name} holds damaged records of lane {lane}: restart it while its peers are well"
        elif not damaged["repaired"]:
            yield f"{name} lacks lane {lane}, which was damaged, until a peer has sent it"


def _of_order(leader: ServerStatus | None) -> Iterable[str]:
    if leader is None:
        yield "no orderer leads, so nothing is ordered: more than half of the orderers must be up"
    elif not (leader.status or {}).get("configured"):
        yield "the cluster is not configured yet"


def _of_shards(servers: Sequence[ServerStatus], order: _Words) -> Iterable[str]:
    """Shards that should order, take appends, or have more replicas, and do not."""
    asked = {str(each.place.address) for each in servers}
    serving = Counter(
        each.status.get("shard", each.place.shard)
        for each in servers
        if each.status is not None and each.state == "serving"
    )
    for shard in order.get("shards", ()) if order.get("configured") else ():
        if shard["phase"] == "finalized":
            continue
        number, missing, copies = shard["shard"], shard.get("missing", 0), shard.get("copies", 0)
        if missing > 0:
            yield f"shard {number} is short of {missing} of its replicas: add one with ithaca shard replicas add"
        silent = _silent(shard, servers)
        is_few = serving[number] < copies and all(each["address"] in asked for each in shard["replicas"])
        if is_few or len(shard["replicas"]) - len(silent) < copies - missing:
            why = _why(number, serving[number], silent, copies)
            yield f"shard {number} orders nothing: {why}{_instead(number, order)}"
        elif shard["phase"] == "live" and not any(each["open"] for each in shard["replicas"]):
            yield f"shard {number} takes no appends: none of its replicas has an open lane"


def _missing(servers: Sequence[ServerStatus], order: _Words) -> Iterable[str]:
    """Records that are ordered, and that nobody has who could give them to the others."""
    for lane, start, stop, silent in map(astuple, missing_records(servers, order)):
        what = f"records of lane {lane} from LSN {start} to {stop - 1} are ordered, and on no replica that answers"
        if silent:
            names = ", ".join(f"{lane.partition('-')[0]}/{replica}" for replica in silent)
            yield f"{what}: start {names}, which may have them"
        else:
            yield f"{what}: if no disk or backup has them, say so with ithaca shard lost {lane} {start} {stop}"


def _silent(shard: _Words, servers: Iterable[ServerStatus]) -> list[int]:
    """The replicas of which the leader hears nothing, or which did not answer just now."""
    number = shard["shard"]
    unanswered = {
        each.place.number
        for each in servers
        if each.status is None and each.place.role == "replica" and each.place.shard == number
    }
    known = [each.get("replica") for each in shard["replicas"]]
    return [each for each in known if each in unanswered or each in shard.get("silent", ())]


def _why(number: int, serving: int, silent: Sequence[int], copies: int) -> str:
    if not silent:
        return f"{serving} of its replicas serve, and it needs {copies}"
    names = ", ".join(f"{number}/{replica}" for replica in silent)
    return f"replica {names} is silent, and {copies} must have synced what is ordered"


def _instead(number: int, order: _Words) -> str:
    """Where appends go meanwhile, if there is anywhere."""
    others = [each for each in order["shards"] if each["shard"] != number and each["phase"] == "live"]
    takes = [str(each["shard"]) for each in others if any(at["open"] for at in each["replicas"])]
    return f"; appends go to shard {', '.join(takes)}" if takes else ""


def _of_logs(logs: Iterable[str]) -> Iterable[str]:
    different = list(logs)
    if len(different) > 1:
        yield f"servers belong to different logs: {', '.join(different)}"


def _trims_announced(leader: _Words) -> Iterable[str]:
    """What retention is about to trim although it did not grow old before the leader's eyes."""
    status = leader.get("retention")
    if status:
        yield (
            f"retention trims what is before position {status['before']} ({status['positions']} positions) "
            f"from {status['in_s']} s on: it is too old by the orderers' clocks"
        )


def _clocks_apart(leader: _Words) -> Iterable[str]:
    """Clocks that are far from what a majority of the orderers' clocks say."""
    status = leader.get("clocks") or {"order_ahead_s": 0.0, "voters": []}
    clocks = [(f"the clock of orderer {each['server']}", each["ahead_s"]) for each in status["voters"]]
    for name, ahead_s in [*clocks, ("the order's time", status["order_ahead_s"])]:
        if abs(ahead_s) > CLOCK_WARNED_S:
            side = "ahead of" if ahead_s > 0 else "behind"
            yield f"{name} is {abs(ahead_s):.0f} s {side} the time that most orderers agree on"
