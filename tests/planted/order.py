"""Planted bugs of the ordering layer: cuts, reports, sessions, trims, and what its servers answer."""

from tests.planted.bug import Bug

ORDER = (
    Bug(
        "order-longest-report",
        "a cut takes the longest length that any replica reports, and not the one that f+1 have",
        "ithaca.engines.scalog.ordering.reports",
        "return [(key, min(one(lane, 0), other(lane, 0))) for key, lane in self.lanes]",
        "return [(key, max(one(lane, 0), other(lane, 0))) for key, lane in self.lanes]",
    ),
    Bug(
        "order-missing-reports",
        "a cut is made of the reports that are there, however few",
        "ithaca.engines.scalog.ordering.reports",
        "return min(values) if len(values) == rank else 0",
        "return min(values) if values else 0",
    ),
    Bug(
        "aggregator-part-is-whole",
        "an aggregator works out positions as if its part of a cut were all of it",
        "ithaca.engines.scalog.ordering.cut_slices",
        """        keys, lsns, counts, positions = map(unpack, (self.keys, self.lsns, self.counts, self.positions))
""",
        """        keys, lsns, counts = map(unpack, (self.keys, self.lsns, self.counts))
        positions = self.tail - np.cumsum(counts[::-1])[::-1]
""",
    ),
    Bug(
        "order-any-boot",
        "what a replica reported before it was started again still counts",
        "ithaca.engines.scalog.ordering.reports",
        """        if held is None or report.boot > held.boot:
            if not _may_start(group, report):
                return False
""",
        """        if held is None:
            if not _may_start(group, report):
                return False
""",
    ),
    Bug(
        "order-seal-forgotten",
        "when a replica starts again, the lane of its former life is not closed",
        "ithaca.engines.scalog.ordering.shards",
        """        outcomes: list[Outcome] = [self._close(lane)] if replica.is_open else []
        lane = lane._replace(incarnation=lane.incarnation + 1)
""",
        """        outcomes: list[Outcome] = []
        lane = lane._replace(incarnation=lane.incarnation + 1)
""",
    ),
    Bug(
        "order-closed-one-too-long",
        "a lane is closed one record behind what is ordered of it",
        "ithaca.engines.scalog.ordering.lanes",
        "closed = ClosedLane(int(self.lengths[row]), max(",
        "closed = ClosedLane(int(self.lengths[row]) + 1, max(",
    ),
    Bug(
        "order-trim-one-too-far",
        "a trim takes the position along that should be the first one left",
        "ithaca.engines.scalog.ordering.state",
        "self.first = max(self.first, entry.position)",
        "self.first = max(self.first, min(entry.position + 1, self.tail))",
        needs=lambda drawn: drawn.trims,
    ),
    Bug(
        "order-time-falls",
        "a leader that starts again begins with what the clocks say, whatever the cuts before it said",
        "ithaca.engines.scalog.ordering.clock",
        "time_us = max(time_us, agreed_us)",
        "time_us = agreed_us",
        needs=lambda drawn: bool({"step-clocks", "leap-clocks", "clock"} & {*drawn.faults}),
    ),
    Bug(
        "order-snapshot-without-sessions",
        "a restored snapshot has lost the sessions",
        "ithaca.engines.scalog.ordering.sessions",
        "        for session in packed.sessions:\n",
        "        for session in packed.sessions[:0]:\n",
        needs=lambda drawn: drawn.snapshot_entries == 20,
    ),
    Bug(
        "order-producer-ids-again",
        "a restored snapshot gives out the ids of producers again",
        "ithaca.engines.scalog.ordering.sessions",
        "table._next_producer_id = packed.next_producer_id",
        "table._next_producer_id = 1",
        needs=lambda drawn: drawn.snapshot_entries == 20,
    ),
    Bug(
        "order-epoch-not-raised",
        "a session that is opened again keeps its epoch, so that the former handle is not fenced",
        "ithaca.engines.scalog.ordering.sessions",
        "msgspec.structs.replace(known, epoch=known.epoch + 1, active_us=time_us)",
        "msgspec.structs.replace(known, active_us=time_us)",
        needs=lambda drawn: drawn.takes_over,
    ),
    Bug(
        "order-move-from-open-lane",
        "a session moves although its lane is open, and may still order something of it",
        "ithaca.engines.scalog.ordering.sessions",
        'return "the source is not closed" if self._lanes.is_open(entry.source) else None',
        "return None",
    ),
    Bug(
        "order-refused-too-late",
        "the state takes one more when it is full already, and refuses only then",
        "ithaca.engines.scalog.ordering.room",
        "return state.size_bytes + added > ORDERING_STATE_BYTES_MAX + reserve",
        "return state.size_bytes > ORDERING_STATE_BYTES_MAX + reserve",
        needs=lambda drawn: "ORDERING_STATE_BYTES_MAX" in drawn.limits,
    ),
    Bug(
        "order-tail-by-anyone",
        "any orderer says where the log ends, as far as it knows",
        "ithaca.engines.scalog.server.orderer.requests",
        """            connection.answer(request, TailReply(state.tail, state.first, time_us, state.shards.version))

        self._answers.read(connection, request, answer)
""",
        """            connection.answer(request, TailReply(state.tail, state.first, time_us, state.shards.version))

        answer(0)
""",
        needs=lambda drawn: drawn.orderers > 1 and drawn.delay_ns[1] > 1_000_000,
    ),
    Bug(
        "order-joined-without-cuts",
        "a replica that joins is not told the cuts that it missed",
        "ithaca.engines.scalog.server.orderer.telling",
        "cuts = tuple(state.cuts_since(message.shard, 0))",
        "cuts = ()",
        needs=lambda drawn: bool({"kill", "stop", "crash-loop", "pause"} & {*drawn.faults}),
    ),
    Bug(
        "order-cut-let-go-early",
        "a cut is let go when one replica has its positions on the disk",
        "ithaca.engines.scalog.ordering.reports",
        "return _largest(self.copies, [held.runs_cut for held in self.members()])",
        "return _largest(1, [held.runs_cut for held in self.members()])",
    ),
)
