"""How far a position is behind the tail, awaited: looked up in the log itself."""

from ithaca.consumers.limits import LAG_LOOKED_AT_BYTES, LAG_WAIT_S
from ithaca.model.consumers import Lag
from ithaca.model.errors import Trimmed
from ithaca.model.interface.awaited.log import Log
from ithaca.runtime.machine import wall_us


async def lag_of(log: Log, position: int, tail: int, *, is_dense: bool) -> Lag:
    """Of whoever stands there; what was trimmed counts as if it were there, and is not older than what is left."""
    if position >= tail:
        return Lag(0, 0, 0.0, 0)
    try:
        since_us, size = await _looked_at(log, position, tail)
    except Trimmed as error:
        since_us, size = await _looked_at(log, min(error.first, tail), tail)
    seconds = 0.0 if since_us is None else max(0, wall_us() - since_us) / 1e6
    positions = tail - position
    return Lag(positions, positions if is_dense else 0 if since_us is None else None, seconds, size)


async def _looked_at(log: Log, start: int, stop: int) -> tuple[int | None, int]:
    """The timestamp of the first record there, None when there is none, and about how many bytes all of them have: the
    first ones are looked at.
    """
    async with log.read_range(start, stop) as records:
        found = await records.take_batches()
        since_us, size = found[0].timestamp_us if found else None, 0
        while found and size < LAG_LOOKED_AT_BYTES:
            size += sum(batch.raw_bytes for batch in found)
            if size < LAG_LOOKED_AT_BYTES:
                found = await records.take_batches(LAG_WAIT_S)  # a shard that does not answer is not waited for
        passed = max(1, records.position - start)
    return since_us, size * (stop - start) // passed
