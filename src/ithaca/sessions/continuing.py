"""The rule: whether a batch is the next of its session, repeats an earlier one, or is refused."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from ithaca.model.errors import SequenceConflict, SequenceGap, SessionFenced


class Numbered(Protocol):
    """A batch of a session, by the numbers of its records."""

    @property
    def first_seq(self) -> int: ...

    @property
    def count(self) -> int: ...


NumberedT = TypeVar("NumberedT", bound=Numbered)
NumberedT_co = TypeVar("NumberedT_co", bound=Numbered, covariant=True)


class Progress(Protocol[NumberedT_co]):
    """How far a session is: the epoch under which it was opened last, the next number, and its last batches."""

    @property
    def name(self) -> str: ...

    @property
    def epoch(self) -> int: ...

    @property
    def next_seq(self) -> int: ...

    @property
    def placed(self) -> Sequence[NumberedT_co]: ...


def check_epoch(session: Progress[Numbered], epoch: int) -> None:
    """`SessionFenced` unless the epoch is the session's, or a later one."""
    if epoch < session.epoch:
        raise SessionFenced(
            f"session {session.name!r} was opened again (epoch {session.epoch}); this handle has epoch {epoch} "
            "and may not append any more"
        )


def earlier(session: Progress[NumberedT], first_seq: int, count: int) -> NumberedT | None:
    """The batch that one with these numbers repeats; None when it is the next, `SequenceGap` when it is neither."""
    if first_seq == session.next_seq:
        return None
    for placed in reversed(session.placed):
        if placed.first_seq == first_seq and placed.count == count:
            return placed
    oldest = session.placed[0].first_seq if session.placed else session.next_seq
    raise SequenceGap(
        f"session {session.name!r} expects number {session.next_seq}, and knows the batches since number {oldest}: "
        f"{count} record(s) numbered from {first_seq} are neither next nor one of those"
    )


def conflict(name: str, first_seq: int, count: int) -> SequenceConflict:
    """What a batch is told that has the numbers of an earlier one, and other records."""
    return SequenceConflict(
        f"session {name!r} has appended other records under the numbers {first_seq} to {first_seq + count - 1}: "
        "nothing was appended now; a retry has the same records, and new records the next number (session.next_seq)"
    )
