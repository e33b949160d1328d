"""Bounds of this engine."""

from typing import Final

ROW_POSITIONS: Final = 1 << 20
"""Positions of a row, a power of two. Every batch fits into one: `model.limits.BATCH_RECORDS_MAX` is as much."""
ROW_MAX: Final = (1 << 42) - 1
"""The last row, so that every position fits into 63 bits."""
GRANT_ROWS: Final = 1 << 16
"""Rows that Raft grants a sequencer at a time: what a reconfiguration skips at most."""
UNITS_MAX: Final = 4096
"""Units that a projection may have; the numbers of those that were removed do not count."""
RANGES_MAX: Final = 4096
"""Ranges of a projection. Each reconfiguration adds two at most."""
TOKENS_MAX: Final = 1024
"""Tokens of one request."""
SEQUENCER_SESSIONS_MAX: Final = 65_536
"""Sessions whose open rows a sequencer remembers."""
KEPT_MAX: Final = 4096
"""Requests that a sequencer keeps until it has begun."""
KEPT_MS: Final = 200
"""How long it keeps each; far less than clients wait for an answer."""
UNIT_SESSIONS_MAX: Final = 32_768
"""Sessions whose last batches a unit remembers."""
UNIT_WRITES_MAX: Final = 4096
"""Writes that a unit has accepted and not yet synced."""
UNIT_TRIMS_MAX: Final = 65_536
"""Ranges of rows that were trimmed one by one; ranges that touch are one."""
MISSING_ROWS_MAX: Final = 1024
"""Rows that one answer to `ListMissing` names."""
RETRY_MS: Final = 20
"""Pause before a unit that was not reached is tried again, and before Raft is asked again."""
RETRY_MS_MAX: Final = 320
"""What that pause grows to."""
PATIENCE_MS: Final = 5000
"""How long a server may be silent before it is reconfigured away, and a seal may be there before others finish it."""
UNIT_GONE_MS: Final = 1000
"""The same where nobody listens at its address: what it takes to start a process again. A unit that is given up has to
copy everything again, so one that is only started again should be waited for."""
SEQUENCER_GONE_MS: Final = 0
"""The same of a sequencer: it has nothing that its successor lacks, and being started again it ends the epoch, too."""
COMMIT_TOLD_MS: Final = 2
"""How soon orderers that follow hear that something was decided: one of them may be the next sequencer."""
CARE_MS: Final = 1000
"""How often a leader looks whether a unit is to be enlisted, or a chain to be made whole."""
HOLE_MS: Final = 50
"""How long a row that somebody has taken may lack what the head of its chain has before a reader completes it."""
JUNK_MS: Final = 1000
"""How long it may be unwritten altogether before a reader makes it junk."""
LOOK_MS: Final = 5
"""Pause of a reader who found nothing where something is expected, before it looks again."""
AWAIT_MS_MAX: Final = 500
"""For how long a unit lets a reader wait for a row; then the reader asks whether somebody has taken it."""
UNIT_READERS_MAX: Final = 4096
"""Readers that wait at a unit at the same time; others are told at once that nothing is there yet."""
TAILS_SEEN_MAX: Final = 1024
"""Tails of which a reader remembers when it saw them: by these it knows for how long a row was a hole."""
STRETCH_ROWS_MAX: Final = 128
"""Rows that one answer to `ReadRows` holds: a unit does nothing else meanwhile."""
STRETCH_ROWS_MIN: Final = 16
"""Rows that a reader asks for at first; more follow as long as it goes on where it was."""
STRETCH_BYTES_MAX: Final = 4 << 20
"""Bytes of batches that a reader asks for at once; of what is asked in one request the first batch comes however large
it is."""
STRETCH_PARTS: Final = 4
"""Requests of a reader that are under way at once: a unit reads for one while the answer to another is taken."""
STRETCHES_MAX: Final = 64
"""Readers of a handle of which is remembered how many rows they are to ask for next."""
LOCATED_ROWS_MAX: Final = 4096
"""Rows of which one answer to `LocateRows` says where they lie."""
WRITERS_MAX: Final = 16
"""Batches of a handle that are under way at the same time; each has a session of its own."""
WRITE_AHEAD_ROWS: Final = 1 << 16
"""How far beyond the tail a row may be that somebody chooses himself."""
CHOSEN_ROWS_MAX: Final = 4096
"""Times that rows were chosen, of which a sequencer remembers what came of it."""
GATHER_BYTES_MAX: Final = 1 << 20
"""Single records that wait for a writer become batches of about this size."""
GATHER_RECORDS_MAX: Final = 4096
