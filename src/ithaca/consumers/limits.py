"""Bounds of what handles and leaders do for consumers; those of the state are in `model.limits`."""

CONSUMERS_WAITING_MAX = 16_384
"""Changes of consumers that a leader has not had agreed on yet; beyond that it refuses more."""
CONSUMERS_BUSY = 64
CONSUMERS_GATHER_S = 0.02
"""While more consumers than so many commit within a second, a leader gathers what they ask for so long."""
CONSUMERS_CHECK_S = 5.0
"""How often a leader looks for consumers that were idle for too long."""
CONSUMER_COMMIT_RECORDS_MAX = 1 << 30
"""After at most so many records a consumer commits by itself, if it does."""
CONSUMER_RESETS_MAX = 8
"""How often a reset is tried again that somebody came before."""
PARTS_ANSWERED_MAX = 4096
"""Parts of consumers that one page of their list has, but for a single one with more."""
HELD_MAX = 4096
"""How finely what is held back for consumers is told apart by when it was to go."""
TAIL_NOTED_S = 1.0
TAILS_NOTED_MAX = 4096
"""How often a leader notes where the tail is, and how many of these notes it keeps: the last hour, on a busy log."""
LAG_LOOKED_AT_BYTES = 64 << 10
"""Of the records that a consumer has before it, about so much is looked at to estimate what all of them have."""
LAG_WAIT_S = 0.1
"""For more of these than come at once nobody waits longer."""
CONSUMERS_SHOWN_MAX = 32
"""Those furthest behind, in the status of a leader."""
GROUP_BEAT_S = 0.5
GROUP_BEAT_SOON_S = 0.1
"""How often a member asks which parts are its own: the second while others have yet to hand over some to it."""
GROUP_SURE = 0.75
"""For this part of its lease a member that was answered hands records out without another answer: the rest is for
clocks that run at other rates."""
GROUP_LEAVE_S = 1.0
"""So long a member that is closed waits for its leaving to be heard; else its parts are free when its lease ends."""
