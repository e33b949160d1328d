"""Batches for tests: strategies, their bytes, and forgeries that carry a right checksum."""

import google_crc32c
from hypothesis import strategies as st

from ithaca.model.records import Compression, Record
from ithaca.wire.batch import HEAD_BYTES, Batch

Row = tuple[bytes, bytes | None]

compressions: st.SearchStrategy[Compression] = st.sampled_from(["none", "lz4", "zstd"])
repetitive = st.binary(max_size=4).map(lambda part: part * 30)
values = st.binary(max_size=20) | repetitive
rows_with_keys: st.SearchStrategy[list[Row]] = st.lists(
    st.tuples(values, st.none() | st.binary(max_size=3) | repetitive), min_size=1, max_size=20
)


def data_of(batch: Batch) -> bytes:
    """The batch as it is stored."""
    return b"".join(map(bytes, batch.buffers()))


def rows_of(records: list[Record]) -> list[Row]:
    return [(record.value, record.key) for record in records]


def resealed(data: bytes | bytearray) -> bytes:
    """The bytes with the checksum that a producer who means harm would give them."""
    forged = bytearray(data)
    crc = google_crc32c.value(bytes(forged[8:48]))
    crc = google_crc32c.extend(crc, bytes(forged[60:HEAD_BYTES]) + bytes(forged[HEAD_BYTES:]))
    forged[4:8] = crc.to_bytes(4, "little")
    return bytes(forged)
