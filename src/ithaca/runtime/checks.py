"""What a caller can get wrong, found in one place, so that every engine refuses it in the same words.

What is wrong with records and batches is found by `wire.build`.
"""

from datetime import datetime

from ithaca.model.errors import DeadlineExceeded, InvalidInput
from ithaca.model.limits import SESSION_NAME_BYTES_MAX
from ithaca.model.records import KeyFilter, Start


def check_seq(seq: int) -> None:
    if seq < 1:
        raise InvalidInput(f"sequence number {seq} is below 1")


def check_session_name(name: str) -> None:
    if not isinstance(name, str) or not 0 < len(name.encode()) <= SESSION_NAME_BYTES_MAX:
        raise InvalidInput(f"a session's name has 1 to {SESSION_NAME_BYTES_MAX} bytes, not {name!r}")


def check_position(position: int, what: str = "position") -> None:
    if not isinstance(position, int):
        raise InvalidInput(f"{what} {position!r} is not an integer")
    if position < 1:
        raise InvalidInput(f"{what} {position} is below 1, the first position")


def check_start(start: Start) -> None:
    """Where a subscription may start."""
    if isinstance(start, datetime):
        if start.tzinfo is None:
            raise InvalidInput(f"{start!r} has no time zone: use an aware datetime, such as datetime.now(UTC)")
    elif isinstance(start, str):
        if start not in ("earliest", "latest"):
            raise InvalidInput(f'start is {start!r}: use a position, "earliest", "latest" or an aware datetime')
    else:
        check_position(start, "start")


def time_us_of(start: datetime) -> int:
    """An aware datetime as the order's time."""
    return int(start.timestamp() * 1_000_000)


def check_filter(where: KeyFilter | None) -> None:
    if where is not None and not isinstance(where, KeyFilter):
        raise InvalidInput(f"where is {type(where).__name__}, not a KeyFilter: use KeyFilter.equals or its like")


def too_late(timeout: float | None) -> DeadlineExceeded:
    """What a time-out of an append means."""
    return DeadlineExceeded(f"the append was not committed within {timeout} s; it may still be: its outcome is unknown")


def flush_too_late(timeout: float | None) -> DeadlineExceeded:
    return DeadlineExceeded(f"not everything was committed within {timeout} s; it may still be")
