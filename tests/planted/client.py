"""Planted bugs of the client: retries, sessions that move, reads, and the merge of the shards."""

from tests.planted.bug import Bug

CLIENT = (
    Bug(
        "client-new-number",
        "a batch that was sent and not answered is sent elsewhere, under a new number",
        "ithaca.engines.scalog.client.append.appends",
        """    def unreachable(self, accumulator: Accumulator, error: IthacaError) -> None:
        self._lanes.leave(accumulator.lane)
""",
        """    def unreachable(self, accumulator: Accumulator, error: IthacaError) -> None:
        self._lanes.leave(accumulator.lane)
        if accumulator._producer is not None:
            for sent in accumulator._producer._queue._batches:
                slot = asyncio.get_running_loop().create_future()
                slot.add_done_callback(asyncio.Future.exception)
                self.take_batch(sent.batch, slot)
""",
    ),
    Bug(
        "client-unknown-is-done",
        "a batch whose connection was lost counts as appended, behind the last one that was",
        "ithaca.engines.scalog.client.append.producer",
        """        if link is self._link:
            self._detach()
""",
        """        if link is self._link:
            while self._queue.sent:
                self._queue.settle(0, 1, self.session.home.shard)
            self._detach()
""",
    ),
    Bug(
        "client-move-forgets",
        "a session that moves takes along only what it did in its last home",
        "ithaca.engines.scalog.client.append.home",
        "return tuple(merged_carried(decode_carried(session.carried), here))",
        "return tuple(here)",
    ),
    Bug(
        "client-moves-without-asking",
        "a session moves without asking what was ordered of it in its former home",
        "ithaca.engines.scalog.client.append.home",
        "placed = await self._placed(known, deadline)",
        "placed = tuple(decode_carried(known.carried))",
    ),
    Bug(
        "client-absent-by-replica",
        "that a position is not written is believed of replicas, which may not know better",
        "ithaca.engines.scalog.client.read.reading",
        """            tail = await self._order.tail(deadline)
            self._check(tail, position, waiting)
""",
        """            raise NotWritten(f"position {position} is not written yet", tail=position)
            tail = await self._order.tail(deadline)
""",
    ),
    Bug(
        "client-no-watermark",
        "a filtered subscription passes on what it has without waiting for the other shards",
        "ithaca.client.merge",
        "return piece.start < self._watermark()\n",
        "return True\n",
        needs=lambda drawn: drawn.shards > 1,
    ),
    Bug(
        "client-watermark-of-one",
        "a filtered subscription believes the shard that is ahead",
        "ithaca.client.merge",
        "return min((state.up_to for state in self._shards.values()), default=self.position)",
        "return max((state.up_to for state in self._shards.values()), default=self.position)",
    ),
    Bug(
        "client-stream-skips",
        "a stream that goes on at another replica leaves out the next record",
        "ithaca.engines.scalog.client.read.stream",
        "question = Subscribe(self._position, self._stop, self._where)",
        "question = Subscribe(self._position + bool(self._failures), self._stop, self._where)",
    ),
    Bug(
        "client-stream-repeats",
        "a stream that goes on at another replica begins with the last delivery once more",
        "ithaca.engines.scalog.client.read.stream",
        "self._position = max(message.up_to, after)",
        "self._position = pieces[0].start if pieces else message.up_to",
        needs=lambda drawn: drawn.replicas > 1 and bool({"kill", "stop", "crash-loop"} & {*drawn.faults}),
    ),
    Bug(
        "client-not-sent-again",
        "what was on its way when the connection was lost is not sent again",
        "ithaca.engines.scalog.client.append.producer",
        """            self._link.leave(self)
            self._link = None
        self._queue.unsend()
""",
        """            self._link.leave(self)
            self._link = None
""",
    ),
    Bug(
        "client-any-answer",
        "any answer is taken for that of the oldest batch",
        "ithaca.client.appending.send_queue",
        """        for index in range(self.sent):
            if self._batches[index].correlation == correlation:
                return index
        return None
""",
        """        return 0 if self.sent else None
""",
        needs=lambda drawn: drawn.window > 1,
    ),
)
