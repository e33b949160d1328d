"""What a server delivers of a batch: its rows, or those that a filter has selected, with their positions. Checked."""

import numpy as np

from ithaca.model.errors import ProtocolError
from ithaca.wire.batch import DATA, Batch
from ithaca.wire.positioned import ScatteredBatch


def check_rows(batch: Batch, low: int, high: int) -> None:
    """Raise unless the batch has the rows `[low, high)`, and at least one."""
    if not 0 <= low < high <= batch.count:
        raise ProtocolError(f"the records {low} to {high} of a batch of {batch.count} cannot be delivered")


def check_data(batch: Batch) -> None:
    if batch.kind != DATA:
        raise ProtocolError(f"a batch of kind {batch.kind} cannot be delivered")


def scattered(batch: Batch, rows: bytes, position: int, shard: int) -> ScatteredBatch:
    """The selected records of a batch at this position; `rows` are where each of them stands in it, as `<u4`."""
    if batch.kind != DATA or len(rows) != 4 * batch.count:
        raise ProtocolError(f"{batch.count} selected records came with {len(rows)} bytes of positions")
    places = np.frombuffer(rows, np.dtype("<u4")).astype(np.int64) + position
    if bool((places[1:] <= places[:-1]).any()):
        raise ProtocolError("the positions of selected records do not rise")
    return ScatteredBatch(batch, places, shard)
