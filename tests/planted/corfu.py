"""Planted bugs of the engine `corfu`: what its units, its sequencer and Raft's state must not do."""

from tests.planted.bug import Bug

_UNIT = "ithaca.engines.corfu.sequencing.unit"
_SEQUENCER = "ithaca.engines.corfu.sequencing.sequencer"
_STATE = "ithaca.engines.corfu.sequencing.state"
_STORE = "ithaca.engines.corfu.storage.unit_store"
_INDEX = "ithaca.engines.corfu.storage.row_index"

CORFU = (
    Bug(
        "unit-writes-twice",
        "a row that is there is written again",
        _UNIT,
        "        if row in self._held:\n            return [ReplyHeld(caller, row)]\n",
        "",
        engine="corfu",
    ),
    Bug(
        "unit-answers-before-sync",
        "a unit says that a row is written before it is on its disk",
        _UNIT,
        "        return self._change(RowChange(row, entry), Reply(caller, RowWritten()))\n",
        (
            "        return [*self._change(RowChange(row, entry), Reply(caller, RowWritten())),"
            " Reply(caller, RowWritten())]\n"
        ),
        engine="corfu",
    ),
    Bug(
        "unit-ignores-epochs",
        "a unit takes calls of any epoch, sealed or not",
        _UNIT,
        "        if call.epoch != self.epoch or self.is_sealed:\n",
        "        if call.epoch > self.epoch:\n",
        engine="corfu",
        needs=lambda drawn: "reconfigure" in drawn.faults,
    ),
    Bug(
        "unit-writes-when-sealed",
        "a seal keeps nobody of its epoch from writing",
        _UNIT,
        "        if call.epoch != self.epoch or self.is_sealed:\n",
        "        if call.epoch != self.epoch:\n",
        engine="corfu",
        needs=lambda drawn: "reconfigure" in drawn.faults,
    ),
    Bug(
        "unit-forgets-seal",
        "a seal is gone after a restart",
        _STORE,
        "epoch=change.epoch, is_sealed=change.is_sealed)",
        "epoch=change.epoch, is_sealed=False)",
        engine="corfu",
        needs=lambda drawn: "reconfigure" in drawn.faults and bool({"kill", "blackout", "stop"} & {*drawn.faults}),
    ),
    Bug(
        "unit-seal-overtakes-writes",
        "a seal is answered while writes that were accepted before it are still on their way to the disk",
        _UNIT,
        "        return self._enter(epoch, is_sealed=True, answer=answer)\n",
        "        return [*self._enter(epoch, is_sealed=True, answer=answer), self._sealed_now(answer)]\n",
        engine="corfu",
        needs=lambda drawn: "reconfigure" in drawn.faults,
    ),
    Bug(
        "unit-any-identity",
        "a unit that lost its disk is taken for the one that it was",
        _UNIT,
        (
            "        if call.identity != self.identity:\n"
            "            return [Reply(caller, OtherIdentity(self.identity))]\n"
        ),
        "",
        engine="corfu",
        needs=lambda drawn: "wipe" in drawn.faults,
    ),
    Bug(
        "unit-not-synced",
        "rows are not synced",
        _STORE,
        "LANE_ID, segment_bytes=segment_bytes)",
        'LANE_ID, segment_bytes=segment_bytes, durability="os")',
        engine="corfu",
        needs=lambda drawn: bool({"power", "blackout"} & {*drawn.faults}),
    ),
    Bug(
        "index-blocks-overlap",
        "a block of the row index is written over the one before it",
        _INDEX,
        "        self._end += len(made.data)\n",
        "        self._end += len(made.data) if len(self._frozen) == 1 else 0\n",
        engine="corfu",
        needs=lambda drawn: drawn.limits["BLOCK_ROWS"] == 4,
    ),
    Bug(
        "sequencer-repeats-rows",
        "a new sequencer begins where the last one did",
        _STATE,
        "            _followed(projection, command, self.bound),\n",
        "            _followed(projection, command, max(projection.start, command.highest + 1)),\n",
        engine="corfu",
    ),
    Bug(
        "sequencer-ignores-bound",
        "rows are given that Raft has not granted",
        _SEQUENCER,
        "        if self.next_row + len(wants) > self.bound:\n",
        "        if self.next_row + len(wants) > self.bound + 1000:\n",
        engine="corfu",
        needs=lambda drawn: drawn.limits["GRANT_ROWS"] == 4,
    ),
    Bug(
        "sequencer-ignores-fences",
        "a handle whose session was opened again gets rows",
        _SEQUENCER,
        (
            "        if want.session_epoch < self._fences.get(want.producer, 0):\n            return Token(NONE, 0)\n"
            "        session = self._session(want.producer, want.session_epoch)\n"
            "        if want.session_epoch < session.epoch:\n            return Token(NONE, 0)\n"
        ),
        "        session = self._session(want.producer, want.session_epoch)\n",
        engine="corfu",
        needs=lambda drawn: drawn.takes_over,
    ),
    Bug(
        "sequencer-names-no-row",
        "the row that an older handle may still write is not named",
        _SEQUENCER,
        "        return SessionFence(session.row)\n",
        "        return SessionFence(NONE)\n",
        engine="corfu",
        needs=lambda drawn: drawn.takes_over,
    ),
    Bug(
        "sequencer-time-falls",
        "times of the order go back with the clock of the sequencer",
        _SEQUENCER,
        "            self.time_us = max(self.time_us + 1, now_us)\n",
        "            self.time_us = now_us\n",
        engine="corfu",
        needs=lambda drawn: "clock" in drawn.faults,
    ),
    Bug(
        "projection-keeps-unsealed",
        "units that were not sealed go on",
        _STATE,
        "    sets = [tuple(unit for unit in chain if unit in sealed) for chain in each.sets]\n",
        "    sets = [tuple(unit for unit in chain if unit in sealed or len(sealed) > 1) for chain in each.sets]\n",
        engine="corfu",
        needs=lambda drawn: "lose-unit" in drawn.faults,
    ),
    Bug(
        "projection-loses-written",
        "the last row that was written becomes empty with the next epoch",
        _STATE,
        "        ranges.append(Range(max(active.start, command.highest + 1)))\n",
        "        ranges.append(Range(max(active.start, command.highest)))\n",
        engine="corfu",
        needs=lambda drawn: "reconfigure" in drawn.faults,
    ),
    Bug(
        "unit-trims-more",
        "a trim takes a row that nobody gave up",
        _UNIT,
        "                return self._trim(caller, TrimChange(low, high, before))\n",
        "                return self._trim(caller, TrimChange(low, high + 1, before))\n",
        engine="corfu",
        needs=lambda drawn: drawn.trims,
    ),
    Bug(
        "index-misses-rows",
        "a row that was not written counts as written",
        _INDEX,
        "        found = (np.flatnonzero(~there)[:count] * step + start).tolist()\n",
        "        found = (np.flatnonzero(~there)[1:count] * step + start).tolist()\n",
        engine="corfu",
    ),
    Bug(
        "projection-not-next",
        "an epoch is followed by two",
        _STATE,
        "        if command.epoch != projection.epoch:\n            return self._void(f",
        "        if command.epoch > projection.epoch:\n            return self._void(f",
        engine="corfu",
        needs=lambda drawn: "reconfigure" in drawn.faults,
    ),
)
