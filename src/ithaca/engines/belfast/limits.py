"""The bounds of windows, slots, takeovers and speculators."""

from ithaca.model.limits import BATCH_RECORDS_MAX, MIB

WINDOW_ROUNDS = 100
WINDOW_ROUNDS_MAX = 1 << 16
"""Rounds of a window of slots, unless told otherwise, and what an entry may say."""
PASS_AHEAD_ROUNDS = 3
"""A lane that has placed something since it was asked last is asked to pass so many rounds beyond what others have
reached, and twice as many each time after that."""
PASS_AHEAD_PART = 12
"""A lane that places nothing is asked to pass at most this part of a window beyond what others have reached."""
WINDOWS_AHEAD_MAX = 4
"""Windows that are ordered and of which not every cut is applied; the next one waits."""
PUBLICATIONS_WAITING_MAX = 1024
"""Publications that wait for the windows before them; more are refused until some are ordered."""
QUOTA_SLOTS = 4096
QUOTA_SLOTS_MAX = BATCH_RECORDS_MAX
"""Slots of a lane in each of its cuts, unless a batch needs more, and at most: any batch fits."""
STAGGER_SHARDS_MIN = 7
STAGGER_GROUP_SHARDS = 6
"""From so many live shards on cuts are staggered, in groups of so many at most."""
CUTS_TOGETHER_MAX = 4096
"""Cuts that one entry orders, and cuts with records that one report names."""
UNPLACED_BATCHES_MAX = 4096
UNPLACED_BYTES_MAX = 16 * MIB
"""What waits at a primary for slots; more is refused as `Overloaded`."""
PASSED_OUTSTANDING_MAX = 2
"""Cuts with records that a lane has passed and that are not applied, beyond which a group does not pass another."""
CUT_NOMINAL_S = 0.002
"""How long a cut with records takes at most while somebody speculates."""
STRAGGLER_LATE_S = 0.05
STRAGGLER_WINDOWS = 5
STRAGGLER_OUT_S = 1.0
"""A lane that keeps others waiting for so long after it was asked to pass has no slots in so many windows, or for so
long if those take longer."""
TAKEOVER_AFTER_S = 0.05
"""How long a primary's connection may be broken before its lane is taken over."""
PLACES_TOLD_MAX = WINDOWS_AHEAD_MAX * WINDOW_ROUNDS_MAX
"""Stretches of a lane that a replica tells in a takeover: at most one for each cut that is not applied."""
MODE_QUIET_S = 10.0
MODE_RETRY_S = 60.0
MODE_LATE_PERCENT = 20
"""In mode `auto` an order is free after so long without speculators, or once so many of its cuts were late; in the
latter case it is tried again after the second."""
SPECULATED_RECORDS_MAX = 1 << 20
"""Records that a speculator holds, delivered and not confirmed or waiting for others; more makes its streams wait."""
ASK_AGAIN_S = 0.1
"""A lane that was asked to pass, and has not, is asked again after so long."""
REFUSED_AGAIN_S = 0.5
"""What a leader proposes for a lane and is refused is tried again after so long."""
FAILURES_TOLD_MAX = 16
"""Failures that a leader tells; whoever missed more rolls back to what was confirmed."""
SPECULATED_BYTES_MAX = 8 * MIB
"""Batches that a primary keeps for speculators that come later, beyond those that are not ordered."""
READ_AFTER_S = 0.05
"""What is ordered is read if a speculator's streams have not brought it after so long."""
SPECULATIVE_EVENTS_MAX = 1 << 16
"""Events that wait for a speculator to take them; more makes its streams wait."""
