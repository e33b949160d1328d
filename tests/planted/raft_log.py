"""Planted bugs of the engine `raft`: one for each rule that it lives by, and more."""

from tests.planted.bug import Bug
from tests.planted.raft import changes_leaders

RAFT_LOG = (
    Bug(
        "log-lane-not-synced",
        "bytes of the data log are not synced before the range that names them",
        "ithaca.engines.raft.storage.shared_log",
        "    lane = Lane(disk, directory, LANE, segment_bytes=segment_bytes)",
        '    lane = Lane(disk, directory, LANE, segment_bytes=segment_bytes, durability="os")',
        engine="raft",
    ),
    Bug(
        "log-bytes-after-range",
        "the range is written and synced before its bytes are",
        "ithaca.engines.raft.storage.shared_log",
        (
            "            self._write_bytes(effect.sequence, self._end, entries)\n"
            "            self._persist_entries(Persist(effect.sequence, hard_state, None, entries))\n"
        ),
        (
            "            self._persist_entries(Persist(effect.sequence, hard_state, None, entries))\n"
            "            self._write_bytes(effect.sequence, self._end, entries)\n"
        ),
        engine="raft",
    ),
    Bug(
        "log-name-not-written",
        "a range is taken for named, and nothing names it",
        "ithaca.engines.raft.storage.shared_log",
        "                    batches.append(name_of(entry, self._raft.place))\n",
        "                    pass\n",
        engine="raft",
    ),
    Bug(
        "log-named-left-out",
        "what is written to the Raft log comes without the ranges before it that were only named",
        "ithaca.engines.raft.storage.shared_log",
        "entries=(*self._named.entries, *effect.entries)))",
        "entries=effect.entries))",
        engine="raft",
    ),
    Bug(
        "log-found-names-unwritten",
        "ranges that a start finds by their names take part, and are not written to the Raft log",
        "ithaca.engines.raft.storage.shared_log",
        "        raft = RaftLog.open_with(disk, directory, found, state, zero_ahead_bytes=ZERO_AHEAD_BYTES)\n",
        "        raft = RaftLog.open_with(disk, directory, found, found.state, zero_ahead_bytes=ZERO_AHEAD_BYTES)\n",
        engine="raft",
    ),
    Bug(
        "log-controls-unnamed",
        "entries that are no ranges wait, too, and nothing names them",
        "ithaca.engines.raft.storage.names",
        "        if not all(map(is_range, entries)) or len",
        "        if len",
        engine="raft",
    ),
    Bug(
        "log-conflict-kept",
        "the bytes of ranges that another leader replaced stay in the lane",
        "ithaca.engines.raft.storage.shared_log",
        "        if self.lane.length <= length:\n            return length\n",
        "        if self._is_open:\n            return max(length, self.lane.length)\n",
        needs=changes_leaders,
        engine="raft",
    ),
    Bug(
        "log-serves-written",
        "a server serves what is on its disk, agreed on or not",
        "ithaca.engines.raft.server.reading",
        "        return self._machine.state.tail",
        "        return position_of(self._store.lane.length)",
        engine="raft",
    ),
    Bug(
        "log-acks-own-disk",
        "the leader acknowledges what is on its own disk",
        "ithaca.engines.raft.server.leading",
        ("        length = self._machine.state.length\n        acks"),
        ("        length = self._store.lane.length\n        acks"),
        needs=changes_leaders,
        engine="raft",
    ),
    Bug(
        "log-leads-at-once",
        "a leader takes appends before an entry of its own term is applied",
        "ithaca.engines.raft.server.leading",
        "        self._placing: Placing | None = None\n",
        "        self._placing = Placing(machine.state, SEED) if machine.state.configuration else None\n",
        engine="raft",
    ),
    Bug(
        "log-old-epoch-taken",
        "a handle whose session was opened again goes on appending",
        "ithaca.engines.raft.replog.sessions",
        ("        check_epoch(self, batch.epoch)\n        if batch.epoch > self.epoch:"),
        "        if batch.epoch > self.epoch:",
        engine="raft",
    ),
    Bug(
        "log-repeats-placed",
        "a batch that is sent again gets a second place",
        "ithaca.engines.raft.replog.sessions",
        "        return earlier(self, batch.first_seq, batch.count)",
        ("        earlier(self, batch.first_seq, batch.count)\n        return None"),
        engine="raft",
    ),
    Bug(
        "log-control-when-written",
        "a trim or an opening acts at the leader when it is proposed",
        "ithaca.engines.raft.server.leading",
        "            placing.proposed(entry)\n",
        ("            placing.proposed(entry)\n            self._machine.state.apply(entry)\n"),
        engine="raft",
    ),
    Bug(
        "log-point-too-long",
        "a compaction point claims a record more than there is",
        "ithaca.engines.raft.replog.state",
        "    yield _LENGTH.pack(length) + _piece(",
        "    yield _LENGTH.pack(length + 1) + _piece(",
        engine="raft",
    ),
    Bug(
        "log-point-forgets-session",
        "a compaction point lacks a session",
        "ithaca.engines.raft.replog.state",
        "        yield _piece(sessions[start : start + SNAPSHOT_PIECE_ITEMS])",
        "        yield _piece(sessions[start + 1 : start + SNAPSHOT_PIECE_ITEMS])",
        engine="raft",
    ),
    Bug(
        "log-copy-has-holes",
        "what a follower copies has no-ops in the place of records",
        "ithaca.engines.raft.server.copying",
        "    start = max(lsn, lane.trim_lsn)\n",
        "    start = max(lsn, lane.trim_lsn, stop - 1)\n",
        engine="raft",
    ),
    Bug(
        "log-point-before-copy",
        "a compaction point is installed before what it refers to is there",
        "ithaca.engines.raft.server.copying",
        "        if self._store.lane.length < stop:\n",
        "        if self._store.lane.length < stop and not stop:\n",
        engine="raft",
    ),
    Bug(
        "log-cold-ranges-empty",
        "ranges that are not in memory any more are sent without their records",
        "ithaca.engines.raft.storage.shared_log",
        "            if found and found[0].base_lsn == lsn:",
        "            if found and found[0].base_lsn == lsn and len(self.staging):",
        engine="raft",
    ),
    Bug(
        "log-one-place-twice",
        "batches that are taken together get the same place",
        "ithaca.engines.raft.replog.placing",
        "        lsn = self._taken[-1].end_lsn if self._taken else self._log.length",
        "        lsn = self._log.length",
        engine="raft",
    ),
    Bug(
        "log-follower-says-not-written",
        "that nothing is written at a position is believed of any server",
        "ithaca.engines.raft.client.log",
        "                    known = await self.servers.log(deadline)\n",
        "                    known = LogIs(1, answer.message.tail)\n",
        engine="raft",
    ),
    Bug(
        "log-stream-skips",
        "a stream passes over what it has not read yet",
        "ithaca.engines.raft.server.reading",
        "        end = min(position_of(batches[-1].end_lsn), limit)",
        "        end = limit",
        engine="raft",
    ),
    Bug(
        "log-trims-more",
        "a trim takes records that nobody gave up",
        "ithaca.engines.raft.storage.shared_log",
        (
            "            self.lane.commit(self.lane.prepare([control_entry(TrimmedTo(lsn))]))\n"
            "            self.lane.drop_trimmed()"
        ),
        (
            "            self.lane.commit(self.lane.prepare([control_entry(TrimmedTo(min(lsn + 5,"
            " self.lane.length)))]))\n"
            "            self.lane.drop_trimmed()"
        ),
        engine="raft",
    ),
    Bug(
        "log-waits-forgotten",
        "who waits for a position is not woken when it is agreed on",
        "ithaca.engines.raft.server.server",
        "            self._read_view.advanced()\n",
        "            pass\n",
        engine="raft",
    ),
)
