"""The verdict on a cluster, by what its servers say of themselves."""

from collections.abc import Sequence

from ithaca.engines.corfu.sequencing.rows import first_position
from ithaca.model.health import Health, ServerStatus


def health(servers: Sequence[ServerStatus]) -> Health:
    """Somebody leads, somebody hands out rows, and every unit of the projection serves."""
    problems = [f"{each.place.name} does not answer: {each.silence}" for each in servers if each.status is None]
    orderers = [each for each in servers if each.place.role == "orderer" and each.status is not None]
    units = [each for each in servers if each.place.role != "orderer" and each.status is not None]
    leader = next((each for each in orderers if each.state == "leading"), None)
    sequencer = next((each for each in orderers if _is_handing_out(each)), None)
    if leader is None:
        problems.append("no orderer leads: no projection can be decided on")
    elif leader.status and leader.status["epoch"] is None:
        problems.append("the log is not founded yet: not all of its units have answered")
    elif sequencer is None and leader.status and leader.status["sequencer"]:
        problems.append("no sequencer hands out rows yet")
    elif leader.status and leader.status["short_chains"]:
        count = leader.status["short_chains"]
        problems.append(
            f"{count} chain(s) have fewer units than they should: units that are there again copy their rows"
        )
    problems += [f"{each.place.name} is {each.state}" for each in units if each.state != "serving"]
    unwell = [each.place.name for each in servers if each.status is None]
    unwell += [each.place.name for each in units if each.state != "serving"]
    told = {} if leader is None or leader.status is None else leader.status
    warnings = []
    tail = None if sequencer is None or sequencer.status is None else first_position(sequencer.status["next_row"])
    if told.get("sequencer") == 0:
        warnings.append(
            "nobody hands out positions: whoever appends contends for the next one (ithaca sequencer replace)"
        )
        tail = first_position(max(told["start"], *(each.status["highest_row"] + 1 for each in units if each.status)))
    if told.get("copying"):
        copying = told["copying"]
        warnings.append(
            f"unit {copying['unit']} copies from unit {copying['source']}: {copying['done']:.0%} of a range"
        )
    first = told.get("first")
    return Health(problems, warnings, first, tail, told.get("log"), leader, tuple(unwell))


def _is_handing_out(server: ServerStatus) -> bool:
    status = server.status or {}
    return bool(status.get("is_sequencer")) and not status.get("is_preparing")
