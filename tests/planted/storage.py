"""Planted bugs of lanes on a disk."""

from tests.planted.bug import Bug

STORAGE = (
    Bug(
        "lane-not-synced",
        "records are acknowledged when they are written, and not when they are synced",
        "ithaca.storage.lane",
        "self._writer.write(group.offset, group.buffers, group.end_offset - group.offset, durably=durably)",
        "self._writer.write(group.offset, group.buffers, group.end_offset - group.offset, durably=False)",
    ),
    Bug(
        "lane-sync-retried",
        "a sync that failed is done once more, and then believed",
        "ithaca.storage.lane",
        """            if durably and error.errno not in _FULL:
                raise self._sync_failed(error) from error
            self._take_back(group.offset)
            raise _translated(error, self._writer.segment.path) from error
""",
        """            if error.errno in _FULL:
                self._take_back(group.offset)
                raise _translated(error, self._writer.segment.path) from error
            self._writer.file.sync()
""",
        needs=lambda drawn: "failed-sync" in drawn.faults,
    ),
    Bug(
        "lane-full-disk-acknowledged",
        "what found no space counts as written",
        "ithaca.runtime.lane_writer",
        """            queue.extendleft(reversed(group))
            raise
""",
        """            return _Written(group[-1].end_lsn, monotonic_s() - started_s, len(group), size_bytes)
""",
        needs=lambda drawn: bool({"full-disk", "fill-disk"} & {*drawn.faults}),
    ),
    Bug(
        "lane-segment-name-not-synced",
        "a new segment is written to before its name is durable",
        "ithaca.storage.lane",
        "    _synced(lambda: disk.sync_directory(directory))\n",
        "",
        needs=lambda drawn: bool({"power", "blackout"} & {*drawn.faults}),
    ),
    Bug(
        "lane-tail-dropped",
        "a restart keeps of each lane only what it knows the positions of",
        "ithaca.engines.scalog.storage.lane_store",
        "self._found[lane] = held.length()  # which reads the newest runs",
        "truncation.truncate(self._disk, self._path(lane), lane, Runs(self._disk, self._path(lane)).end_lsn)\n"
        "                self._found[lane] = held.length()",
    ),
    Bug(
        "lane-checksum-ignored",
        "batches are taken for whole without a look at their checksums, torn ones included",
        "ithaca.wire.batch",
        "if _crc_of(batch.head, batch.body) != batch.body_crc:",
        "if batch.body_crc < 0:",
        needs=lambda drawn: bool({"flip", "flip-running", "flip-tail"} & {*drawn.faults}),
    ),
    Bug(
        "lane-cut-one-batch-short",
        "a lane that is cut back loses the last batch that it should keep",
        "ithaca.storage.truncation",
        "lsn, offset = segment.offset_of(length - 1) if length > segment.first_lsn else (length, 0)",
        "length = max(segment.first_lsn, length - 1)\n"
        "    lsn, offset = segment.offset_of(length - 1) if length > segment.first_lsn else (length, 0)",
    ),
    Bug(
        "meta-not-synced",
        "a start of a replica is counted in the page cache only: after a power loss the same boot comes again",
        "ithaca.storage.checked_file",
        """    file.sync()
    disk.rename(path + ".new", path)
    disk.sync_directory(directory)
""",
        """    disk.rename(path + ".new", path)
""",
        needs=lambda drawn: bool({"power", "blackout"} & {*drawn.faults}),
    ),
)
