"""Planted bugs of what clients are told: ranges, filters, times, trims, retries, and what only crashes show."""

from tests.planted.bug import Bug

TOLD = (
    Bug(
        "range-ends-early",
        "a range that ends just before the tail leaves out its last record",
        "ithaca.engines.scalog.client.read.records",
        "min(await self._meant(self._until, tail, deadline), tail.tail)",
        "min(await self._meant(self._until, tail, deadline), tail.tail - 1)",
    ),
    Bug(
        "filter-stream-stops",
        "a filtered stream sends nothing more after its first watermark, and goes on to say how far it is",
        "ithaca.engines.scalog.server.replica.streams",
        "            items, payload = await self._select(entries, self._where, view)\n",
        """            items, payload = await self._select(entries, self._where, view)
            if self._told[0]:
                items, payload = [], []
""",
    ),
    Bug(
        "filter-hash-inclusive",
        "a range of hashes has its upper end in it",
        "ithaca.protocol.filters",
        "return Filter(where.kind, where.key, where.low, where.high - 1)",
        "return Filter(where.kind, where.key, where.low, min(where.high, (1 << 64) - 1) if where.high else -1)",
    ),
    Bug(
        "told-shard-zero",
        "a record that was read says that it is of shard 0",
        "ithaca.engines.scalog.client.read.reading",
        "return batch.record(message.position, shard, row)",
        "return batch.record(message.position, 0, row)",
    ),
    Bug(
        "told-no-time",
        "records that a filter has taken out of a batch have lost their time",
        "ithaca.wire.positioned",
        "stamp, shard = self.timestamp_us, self.shard",
        "stamp, shard = 0, self.shard",
    ),
    Bug(
        "poll-cancelled-loses",
        "a poll that is cancelled takes along the records that it had",
        "ithaca.client.ahead_records",
        """        if not found and self._closed:
            raise closed_subscription()
        return found
""",
        """        if not found and self._closed:
            raise closed_subscription()
        await __import__("asyncio").sleep(0.001)
        return found
""",
    ),
    Bug(
        "wait-not-waited",
        "a read that is to wait for a position gives up at once",
        "ithaca.engines.scalog.client.read.reading",
        "if position >= tail.tail and waiting.passed:",
        "if position >= tail.tail:",
    ),
    Bug(
        "seek-old-view",
        "a start by time is looked for in the shards that the client happens to know",
        "ithaca.engines.scalog.client.read.reading",
        """        if tail.view > self._order.view.version:
            await self._order.refresh(deadline, tail.view)

        def take(received: Received) -> int | None:
""",
        """
        def take(received: Received) -> int | None:
""",
        needs=lambda drawn: drawn.edge_readers > 0,
    ),
    Bug(
        "seek-one-cut-late",
        "a start by time leaves out what was ordered at that very time",
        "ithaca.engines.scalog.storage.runs",
        "run = self._floor(_TIME, time_us - 1)",
        "run = self._floor(_TIME, time_us)",
    ),
    Bug(
        "scan-skips-where-files-end",
        "a scan that cannot read the files any more leaves out a record as it goes on over the network",
        "ithaca.client.scan",
        "self.position, self._local = self._local.position, None",
        "self.position, self._local = self._local.position + 1, None",
        needs=lambda drawn: drawn.files_end,
    ),
    Bug(
        "scan-wrong-row",
        "a scan of files takes a batch that is cut by the start of the range from its beginning",
        "ithaca.engines.scalog.client.read.local",
        "return PositionedBatch(batch, position - low, lane.shard, low, high).stretch()",
        "return PositionedBatch(batch, position, lane.shard, 0, high - low).stretch()",
    ),
    Bug(
        "retry-shard-of-home",
        "a batch that a former home ordered is said to be in the shard of the present one",
        "ithaca.engines.scalog.client.append.producer",
        "                self._queue.settle(index, position, shard)\n",
        "                self._queue.settle(index, position, self.session.home.shard)\n",
        needs=lambda drawn: "finalize-unheard" in drawn.faults,
    ),
    Bug(
        "retry-certainly-failed",
        "a batch that was sent again and refused then is said to have failed for certain",
        "ithaca.client.appending.outgoing",
        "return error if certainly or error.outcome_unknown else unknown_copy(error)",
        "return error",
        needs=lambda drawn: drawn.takes_over and drawn.window > 1,
    ),
    Bug(
        "ends-when-refused",
        "a replica that may not join yet ends, and is started again, and again",
        "ithaca.engines.scalog.server.replica.order",
        "if self._refusal is not None and (not self._refusal.retry or isinstance(self._refusal, WrongLane)):",
        "if self._refusal is not None:",
    ),
    Bug(
        "snapshot-newest-members",
        "a snapshot that is taken while a membership change is under way says that it is done",
        "ithaca.raft.node",
        "self.snapshot = Snapshot(index, term, self.membership.at(index), data)",
        "self.snapshot = Snapshot(index, term, self.membership.current, data)",
        needs=lambda drawn: drawn.spare_orderers > 0 and drawn.snapshot_entries < 20,
    ),
    Bug(
        "lane-damaged-tail-cut",
        "damage to synced entries at the end of a lane is taken for a torn tail",
        "ithaca.storage.recovery",
        "    if _mark_behind(segment, found.end_offset, found.state.length):\n",
        "    if False:\n",
        needs=lambda drawn: "flip-tail" in drawn.faults,
    ),
    Bug(
        "reader-after-crash",
        "the index of what a restart has written again points behind each batch",
        "ithaca.storage.recovery",
        "            notes.append((entry.base_lsn, offset, times[entry.base_lsn]))\n",
        "            notes.append((entry.base_lsn, offset + entry.total_bytes, times[entry.base_lsn]))\n",
        needs=lambda drawn: "die-unsynced" in drawn.faults,
    ),
)
