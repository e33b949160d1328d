"""Planted bugs of the engine `corfu`: without a sequencer, with rows that users choose, with units that are moved."""

from tests.planted.bug import Bug

_FLOWS = "ithaca.engines.corfu.sequencing.flows"
_SEQUENCER = "ithaca.engines.corfu.sequencing.sequencer"

CORFU_CHANGES = (
    Bug(
        "read-anywhere",
        "a row that may not be complete is read at any unit of its chain",
        f"{_FLOWS}.reading",
        "    if row < projection.settled and len(chain) > 1:\n",
        "    if len(chain) > 1:\n",
        engine="corfu",
        needs=lambda drawn: drawn.replicas > 1,
    ),
    Bug(
        "contends-when-fenced",
        "without a sequencer nobody asks whether the session was opened again",
        f"{_FLOWS}.appending",
        "        if (yield from is_fenced(writer.producer, writer.epoch)):\n            return Token(NONE, 0)\n",
        "",
        engine="corfu",
        needs=lambda drawn: "reconfigure" in drawn.faults and drawn.takes_over,
    ),
    Bug(
        "contends-unsealed",
        "without a sequencer a session is opened again in the same epoch",
        f"{_FLOWS}.opening",
        "        elif projection.epoch == raised_in:",
        "        elif projection.epoch < raised_in:",
        engine="corfu",
        needs=lambda drawn: "reconfigure" in drawn.faults and drawn.takes_over,
    ),
    Bug(
        "contends-unsettled",
        "an epoch without a sequencer begins before what precedes is settled",
        f"{_FLOWS}.beginning",
        ("        return True\n    if not (yield from _settled_below(knowledge, projection)):\n"),
        "        return True\n    if projection.epoch < 0:\n",
        engine="corfu",
        needs=lambda drawn: "reconfigure" in drawn.faults,
    ),
    Bug(
        "contends-beyond-bound",
        "without a sequencer rows are written that Raft has not granted",
        f"{_FLOWS}.contending",
        "    if row >= knowledge.known.bound:\n",
        "    if row >= knowledge.known.bound + 1000:\n",
        engine="corfu",
        needs=lambda drawn: "reconfigure" in drawn.faults and drawn.limits["GRANT_ROWS"] == 4,
    ),
    Bug(
        "contends-in-old-time",
        "without a sequencer a row may be older than the one before it",
        f"{_FLOWS}.contending",
        "    return FreeRow(row, max(reached.time_us + 1, knowledge.now_us()))\n",
        "    return FreeRow(row, knowledge.now_us())\n",
        engine="corfu",
        needs=lambda drawn: "reconfigure" in drawn.faults and "clock" in drawn.faults,
    ),
    Bug(
        "chosen-row-given-again",
        "a row that somebody has chosen is given to a session, too",
        _SEQUENCER,
        "            self.next_row, self.time_us = row + 1, chosen.time_us + row - chosen.low\n",
        "            self.next_row, self.time_us = row, chosen.time_us + row - chosen.low\n",
        engine="corfu",
        needs=lambda drawn: drawn.seed % 3 == 0,
    ),
    Bug(
        "chosen-row-of-a-session",
        "a row that a session has is given to whoever names it",
        _SEQUENCER,
        "        token = Token(NONE, 0)\n        if at",
        "        token = Token(row, self.time_us)\n        if at",
        engine="corfu",
        needs=lambda drawn: drawn.seed % 3 == 0,
    ),
    Bug(
        "copies-too-little",
        "a unit joins a chain before it has all rows of it",
        f"{_FLOWS}.rebuilding",
        "        for missing in answer.rows:\n",
        "        for missing in answer.rows[1:]:\n",
        engine="corfu",
        needs=lambda drawn: "wipe" in drawn.faults or "lose-unit" in drawn.faults,
    ),
)
