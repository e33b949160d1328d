"""What a caller can get wrong, found in one place, so that every engine refuses it in the same words.

What is wrong with records and batches is found by `wire.build`.
"""

from datetime import datetime

from ithaca.model.arguments import is_integer, whole
from ithaca.model.errors import DeadlineExceeded, InvalidInput, LogClosed
from ithaca.model.limits import SESSION_NAME_BYTES_MAX
from ithaca.model.records import KeyFilter, Start
from ithaca.users.names import ANONYMOUS


def check_seq(seq: int) -> None:
    if not is_integer(seq):
        raise InvalidInput(f"seq is {seq!r}: use a whole number from 1 on, such as session.next_seq")
    if seq < 1:
        raise InvalidInput(f"sequence number {seq} is below 1")


def check_max_records(max_records: int) -> None:
    whole(max_records, "max_records")


def check_shard_number(shard: int | None) -> None:
    """Whether there is one of this number is known elsewhere."""
    if shard is not None and not is_integer(shard):
        raise InvalidInput(f"shard is {shard!r}: use the number of a shard, such as 0")


def check_session_name(name: str) -> None:
    if not isinstance(name, str) or not 0 < len(name.encode()) <= SESSION_NAME_BYTES_MAX:
        raise InvalidInput(f"a session's name has 1 to {SESSION_NAME_BYTES_MAX} bytes, not {name!r}")


def check_named_session(name: str) -> None:
    """What users may call a session of a cluster."""
    check_session_name(name)
    if name.startswith(ANONYMOUS):
        raise InvalidInput(f"session {name!r} begins with {ANONYMOUS!r}, as only those do that nobody names")


def check_position(position: int, what: str = "position") -> None:
    if not is_integer(position):
        raise InvalidInput(f"{what} {position!r} is not an integer: positions are whole numbers from 1 on")
    if position < 1:
        instead = ": the newest record is log[log.tail() - 1]" if position < 0 else ""
        raise InvalidInput(f"{what} {position} is below 1, the first position{instead}")


def check_start(start: Start, what: str = "start") -> None:
    """Where reading may start, or stop."""
    if isinstance(start, datetime):
        if start.tzinfo is None:
            raise InvalidInput(f"{what} {start!r} has no time zone: use an aware datetime, such as datetime.now(UTC)")
    elif start not in ("earliest", "latest"):
        if not is_integer(start):
            raise InvalidInput(f'{what} is {start!r}: use a position, "earliest", "latest" or an aware datetime')
        assert isinstance(start, int)
        check_position(start, what)


def check_range(start: Start, stop: Start | None, where: KeyFilter | None) -> None:
    """What `read_range` is given."""
    check_start(start)
    if stop is not None:
        check_start(stop, "stop")
    check_filter(where)


def time_us_of(start: datetime) -> int:
    """An aware datetime as the order's time."""
    return int(start.timestamp() * 1_000_000)


def check_filter(where: KeyFilter | None) -> None:
    if where is not None and not isinstance(where, KeyFilter):
        raise InvalidInput(
            f'where is {where!r}, not a KeyFilter: write KeyFilter.equals(b"user-7"), KeyFilter.prefix(b"user-") or '
            "KeyFilter.part(0, 4)"
        )


def iteration_text(name: str, origin: str, position: int | None, stop: object, closed: bool) -> str:
    """What `repr` says of an iteration over a log that is at `origin`."""
    where = "not begun" if position is None else f"at position {position}"
    end = "" if stop is None else f" of those before {stop}"
    return f"<ithaca.{name} of {origin}, {where}{end}, {'closed' if closed else 'open'}>"


def closed_subscription() -> LogClosed:
    """What a poll is told where nothing will ever arrive."""
    return LogClosed("the subscription was closed: subscribe again, from its position")


def too_late(timeout: float | None) -> DeadlineExceeded:
    """What a time-out of an append means."""
    return DeadlineExceeded(f"the append was not committed within {timeout} s; it may still be: its outcome is unknown")


def flush_too_late(timeout: float | None) -> DeadlineExceeded:
    return DeadlineExceeded(f"not everything was committed within {timeout} s; it may still be")
