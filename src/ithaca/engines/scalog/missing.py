"""What is ordered of a shard, and on none of the disks of its replicas, by what all of them say of themselves."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ithaca.model.health import ServerStatus
from ithaca.model.interface.shared import MissingInfo

_Words = Mapping[str, Any]


def missing_records(servers: Sequence[ServerStatus], order: _Words) -> list[MissingInfo]:
    """The ends of closed lanes that no replica has, of those that answer; `order` is what an orderer says of shards."""
    found: list[MissingInfo] = []
    for shard in order.get("shards", ()):
        number = shard["shard"]
        said = {
            each.status["replica"]: each.status
            for each in servers
            if each.status is not None
            and each.status.get("role") == "replica"
            and each.status.get("shard") == number
            and each.state != "joining"  # it has not heard yet what is ordered
        }
        replicas = [each["replica"] for each in shard["replicas"] if "replica" in each]
        there = [said[each] for each in replicas if each in said]
        silent = tuple(each for each in replicas if each not in said)
        found += _of_shard(there, silent) if there else ()
    return found


def _of_shard(there: Sequence[_Words], silent: tuple[int, ...]) -> Iterable[MissingInfo]:
    lanes = [{each["lane"]: each for each in status.get("lanes", ())} for status in there]
    for lane in lanes[0]:
        copies = [known[lane] for known in lanes if lane in known]
        if len(copies) < len(lanes) or any(each["open"] for each in copies):
            continue  # some replica has all of it, and so does not list it; or it may still be written
        ordered = max(each["ordered"] for each in copies)
        placed = max(each.get("placed", each["durable"]) for each in copies)
        held = min(max(each["durable"] for each in copies), placed)
        if held < ordered and any(each.get("behind", True) for each in copies):
            yield MissingInfo(lane, held, ordered, silent)
