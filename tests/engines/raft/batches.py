"""Batches of sessions, for tests of the engine."""

from ithaca.wire.batch import Batch
from ithaca.wire.build import build


def batch_of(producer_id: int, first_seq: int, count: int = 1, *, epoch: int = 1, text: bytes = b"x") -> Batch:
    values = [b"%s %d/%d" % (text, producer_id, first_seq + offset) for offset in range(count)]
    return build(values, timestamp_us=1, producer=(producer_id, epoch, first_seq))
