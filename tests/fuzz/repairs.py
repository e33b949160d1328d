"""Damaged bytes with their checksums made right: what only a writer who means harm, or who errs, would produce."""

import struct

import google_crc32c
import numpy as np
from tests.storage.lanes import LANE
from tests.wire.batches import resealed

from ithaca.engines.scalog.storage import pack as packs
from ithaca.engines.scalog.storage.limits import RUNS_FILE_PAGES
from ithaca.model.limits import FRAME_HEADER_BYTES_MAX
from ithaca.storage import checked_file
from ithaca.wire import batch as batches
from ithaca.wire.batch import HEAD_BYTES, lane_seed
from ithaca.wire.frame import PREFIX_BYTES

PAGE_ENTRIES = 4
"""Of the runs files that are tried here."""
_RUNS_BLOCK_BYTES = 56 + 32 * PAGE_ENTRIES
RUNS_HEAD_BYTES = 512 + 2 * _RUNS_BLOCK_BYTES
"""Of `runs` without pages, which stand in a file of their own."""
_SEED = lane_seed(LANE)


def crc_of(data: bytes | bytearray) -> bytes:
    return int(google_crc32c.value(bytes(data))).to_bytes(4, "little")


def _u32(data: bytes | bytearray, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _fitted(data: bytearray, at: int, end: int, start: int) -> int:
    """Have the length at `at`, of a part that starts at `start`, be a multiple of 8 that ends inside; returns it."""
    length = min(_u32(data, at), max(0, end - start)) & ~7
    data[at : at + 4] = length.to_bytes(4, "little")
    return length


def frames(data: bytes) -> bytes:
    """Every prefix says a length that is there, and paddings are zero."""
    fixed, at = bytearray(data), 0
    while len(fixed) - at >= PREFIX_BYTES:
        length = max(PREFIX_BYTES, min(_u32(fixed, at), len(fixed) - at) & ~7)
        header_bytes = min(int.from_bytes(fixed[at + 6 : at + 8], "little"), length - PREFIX_BYTES)
        header_bytes = min(header_bytes, FRAME_HEADER_BYTES_MAX)
        fixed[at : at + 4] = length.to_bytes(4, "little")
        fixed[at + 6 : at + 8] = header_bytes.to_bytes(2, "little")
        fixed[at + 12 : at + 16] = bytes(4)
        end = at + PREFIX_BYTES + header_bytes
        fixed[end : end + -header_bytes % 8] = bytes(-header_bytes % 8)
        at += length
    return bytes(fixed)


def batch(data: bytes) -> bytes:
    """The one batch at the start has the checksum of its body."""
    return bytes(_sealed_at(bytearray(data), 0)) if len(data) >= HEAD_BYTES else data


def _sealed_at(data: bytearray, at: int) -> bytearray:
    data[at : at + 4] = batches.MAGIC.to_bytes(4, "little")
    body_bytes = _fitted(data, at + 16, len(data), at + HEAD_BYTES)
    end = at + HEAD_BYTES + body_bytes
    data[at:end] = resealed(data[at:end])
    return data


def segment(data: bytes) -> bytes:
    """Every batch continues the lane, up to where the zeros begin."""
    fixed, at, lsn = bytearray(data), 0, 0
    while len(fixed) - at >= HEAD_BYTES and any(fixed[at : at + HEAD_BYTES]):
        _sealed_at(fixed, at)
        found = batches.Batch(bytes(fixed[at : at + HEAD_BYTES]), b"", 0)
        fixed[at : at + HEAD_BYTES] = found.placed_head(lsn, _SEED)
        at, lsn = at + found.total_bytes, lsn + found.count
    return bytes(fixed)


def index(data: bytes) -> bytes:
    fixed, at = bytearray(data), 0
    while len(fixed) - at >= 32:
        count = min(_u32(fixed, at + 12), (len(fixed) - at - 32) // 24)
        fixed[at : at + 4] = b"ITHX"
        fixed[at + 12 : at + 16] = count.to_bytes(4, "little")
        stop = at + 32 + 24 * count
        fixed[at + 4 : at + 8] = crc_of(fixed[at + 8 : stop])
        at = stop
    return bytes(fixed)


def checked(data: bytes) -> bytes:
    """A file of `storage.checked_file`; its version stays as it is."""
    if len(data) < 16:
        return data
    return checked_file.encode(data[16:], version=_u32(data, 8))


def synced(data: bytes) -> bytes:
    return b"ITHS" + crc_of(data[8:56]) + data[8:]


def raft_log(data: bytes) -> bytes:
    """Head and groups check out; every group is where it says, and of the file's generation."""
    fixed = bytearray(data)
    if len(fixed) < 32:
        return data
    fixed[:8] = b"ithacarl"
    fixed[12:16] = bytes(4)
    fixed[12:16] = crc_of(fixed[:32])
    at = 32
    while len(fixed) - at >= 32 and any(fixed[at : at + 32]):
        body_bytes = _fitted(fixed, at + 16, len(fixed), at + 32)
        fixed[at : at + 4] = b"rgrp"
        fixed[at + 8 : at + 16] = at.to_bytes(8, "little")
        fixed[at + 20 : at + 24] = crc_of(fixed[at + 32 : at + 32 + body_bytes])
        fixed[at + 24 : at + 32] = fixed[16:24]
        fixed[at + 4 : at + 8] = crc_of(fixed[at + 8 : at + 32])
        at += 32 + body_bytes
    return bytes(fixed)


def pack(data: bytes) -> bytes:
    """Both heads are one, and they, the directory and the tables of each lane check out."""
    fixed = bytearray(data)
    if len(fixed) < 2 * packs.HEAD_BYTES:
        return data
    count = min(_u32(fixed, 12), (len(fixed) - 2 * packs.HEAD_BYTES) // packs.ENTRY_BYTES)
    directory = len(fixed) - packs.HEAD_BYTES - count * packs.ENTRY_BYTES
    for at in range(directory, directory + count * packs.ENTRY_BYTES, packs.ENTRY_BYTES):
        fixed[at : at + 4] = b"ITHP"
        entry = packs.packed_at(np.frombuffer(bytes(fixed[at : at + packs.ENTRY_BYTES]), packs.ENTRY)[0])
        if 0 <= entry.tables_at <= entry.end <= directory:
            fixed[at + 100 : at + 104] = crc_of(fixed[entry.tables_at : entry.end])
        fixed[at + 4 : at + 8] = crc_of(fixed[at + 8 : at + packs.ENTRY_BYTES])
    head = struct.pack("<8sIIQI", b"ithacapk", _u32(fixed, 8), count, directory, 0)
    fixed[: packs.HEAD_BYTES] = fixed[-packs.HEAD_BYTES :] = head + crc_of(head)
    return bytes(fixed)


def runs(data: bytes) -> bytes:
    """Head, mark, slots and pages check out; a page says the number of its place."""
    fixed = bytearray(data)
    if len(fixed) < 512 + 2 * _RUNS_BLOCK_BYTES:
        return data
    fixed[:16] = struct.pack("<8sII", b"ithacaru", _u32(fixed, 8), PAGE_ENTRIES)
    if _u32(fixed, 8) == 1:
        fixed[16:20] = crc_of(fixed[:16])
    else:
        fixed[16:20] = RUNS_FILE_PAGES.to_bytes(4, "little")
        fixed[20:24] = crc_of(fixed[:20])
    fixed[64:68] = crc_of(fixed[72:80])
    for at in range(512, len(fixed) - _RUNS_BLOCK_BYTES + 1, _RUNS_BLOCK_BYTES):
        number = (at - 512) // _RUNS_BLOCK_BYTES - 2
        if number < 0:
            count = min(_u32(fixed, at + 48), PAGE_ENTRIES)
            fixed[at : at + 4] = b"ITHN"
            fixed[at + 48 : at + 52] = count.to_bytes(4, "little")
            fixed[at + 4 : at + 8] = crc_of(fixed[at + 8 : at + 56 + 32 * count])
        else:
            fixed[at : at + 4] = b"ITHR"
            fixed[at + 8 : at + 16] = number.to_bytes(8, "little")
            fixed[at + 48 : at + 52] = crc_of(fixed[at + 56 : at + _RUNS_BLOCK_BYTES])
            fixed[at + 4 : at + 8] = crc_of(fixed[at + 8 : at + 56])
    return bytes(fixed)
