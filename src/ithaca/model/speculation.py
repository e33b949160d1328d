"""What a speculative reader is told: records before their places are final, and what became of them.

They are types of their own, so that no record whose place may still change is taken for one whose place is final.
"""

from typing import TypeAlias

import msgspec

from ithaca.model.records import Record


class Delivered(msgspec.Struct, frozen=True, gc=False):
    """A durable record at the position that it is predicted to get, not final yet.

    `attempt` rises with each failure: the same record comes again in the next one.

    >>> Delivered(Record(position=4, value=b"hello", key=None, timestamp_us=0, shard=0), attempt=0).record.position
    4
    """

    record: Record
    attempt: int


class Confirmed(msgspec.Struct, frozen=True, gc=False):
    """Everything that was delivered up to this position, itself included, is final.

    >>> Confirmed(up_to=4).up_to
    4
    """

    up_to: int


class Failed(msgspec.Struct, frozen=True, gc=False):
    """What was delivered behind this position may be wrong: undo it. What is true comes again.

    >>> Failed(after=4).after
    4
    """

    after: int


SpeculativeEvent: TypeAlias = Delivered | Confirmed | Failed
"""What an iteration over `log.speculate()` gives."""
