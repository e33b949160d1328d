"""How far a position is behind the tail, awaited: looked up in the log itself."""

from ithaca.model.consumers import Lag
from ithaca.model.errors import Trimmed
from ithaca.model.interface.awaited.log import Log
from ithaca.runtime.machine import wall_us


async def lag_of(log: Log, position: int, tail: int, *, is_dense: bool) -> Lag:
    """Of whoever stands there; what was trimmed counts as if it were there, and is not older than what is left."""
    if position >= tail:
        return Lag(0, 0, 0.0)
    try:
        since_us = await _first_us(log, position, tail)
    except Trimmed as error:
        since_us = await _first_us(log, min(error.first, tail), tail)
    seconds = 0.0 if since_us is None else max(0, wall_us() - since_us) / 1e6
    positions = tail - position
    return Lag(positions, positions if is_dense else 0 if since_us is None else None, seconds)


async def _first_us(log: Log, start: int, stop: int) -> int | None:
    """The timestamp of the first record there; None when there is none."""
    async with log.read_range(start, stop) as records:
        found = await records.take_batches()
    return found[0].timestamp_us if found else None
