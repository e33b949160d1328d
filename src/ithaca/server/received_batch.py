"""The batch of an append, as it came: checked before anything is done with it."""

from ithaca.model.errors import Corrupt, InvalidInput
from ithaca.protocol.codec import Received
from ithaca.wire.batch import DATA, Batch, parse


def one_batch(received: Received) -> Batch:
    """The batch of records beside a request; `InvalidInput` for anything else."""
    try:
        batch = parse(received.payload)
    except Corrupt as error:
        raise InvalidInput(f"the batch cannot be accepted: {error}") from error
    if batch.kind != DATA or batch.total_bytes != len(received.payload):
        raise InvalidInput("an append carries exactly one batch of records")
    return batch
