"""How much a follower that is far behind gets while others commit without it.

Fed as fast as it can write, it would take the leader's processor, the network and perhaps a disk from those who append.
It must get more than is appended, or it never catches up: as much as is committed, and a share of that on top, or a
modest rate, whichever is more. While nothing is committed nobody is disturbed, and there is no bound.
"""

from ithaca.raft.limits import RAFT_CATCH_UP_BYTES_PER_MS, RAFT_CATCH_UP_EXTRA, RAFT_INFLIGHT_BYTES_MAX


class Pace:
    """What one follower may be sent, in bytes.

    >>> pace = Pace(now_ms=0)
    >>> pace.committed(1_000_000, now_ms=1), pace.allows
    (None, True)
    >>> pace.sent(2_000_000), pace.allows
    (None, False)
    """

    __slots__ = ("_bytes", "_since_ms")

    def __init__(self, now_ms: int) -> None:
        self._bytes = 0
        self._since_ms = now_ms

    @property
    def allows(self) -> bool:
        """Whether it may be sent something; the last message may exceed what it has left."""
        return self._bytes > 0

    def committed(self, size: int, now_ms: int) -> None:
        """So many bytes were agreed on without it."""
        extra = max(size // RAFT_CATCH_UP_EXTRA, (now_ms - self._since_ms) * RAFT_CATCH_UP_BYTES_PER_MS)
        self._bytes = min(self._bytes + size + extra, RAFT_INFLIGHT_BYTES_MAX)
        self._since_ms = now_ms

    def sent(self, size: int) -> None:
        self._bytes -= size
