"""Every error that Ithaca raises on purpose, as one tree.

```
IthacaError (retry, refresh, outcome_unknown)
├ InvalidInput (ValueError)      RecordTooLarge BatchTooLarge UnknownCompression ConfigError(file, line)
│                                NoSuchShard NoSuchReplica ShardFinalized LastShard AddressInUse
│                                NoSuchOrderer LastOrderer NoSuchUnit NoSuchSession NoSuchWriter NoSuchConsumer
│                                NoSuchUser NoSuchMethod NotEncodable
├ PositionError (LookupError)    NotWritten(tail) Trimmed(first) Lost(start, stop) EmptyPosition(next)
│                                PositionTaken
├ LogError                       LogInUse(pid) LogClosed ReadOnly ForkedHandle FormatTooNew(found, supported)
│                                NoSuchLog Unsupported WrongObject WrongVersion(found, supported)
│                                Diverged(position, method) NotAllowed(right, prefix)
├ StorageError                   StorageFull Fenced Corrupt(file, offset)
├ Unavailable                    Overloaded(retry_after_ms) NamesFull Conflict DeadlineExceeded (TimeoutError)
├ SessionError                   SessionFenced SessionExpired SequenceGap SequenceConflict WrongLane PartGone
│                                PublishConflict(writer, key, owner, position, count) ConsumerFenced
├ ProtocolError                  VersionMismatch EngineMismatch(engine) AuthenticationFailed
└ TaskFailed(position, step)     UndoFailed
```

Each class answers three questions a program asks after a failure: may the same call succeed if it is
repeated (`retry`), should metadata be fetched again before that (`refresh`), and may the call have taken
effect all the same (`outcome_unknown`). Messages name the thing, the limit and the way out.
"""

from typing import Any, ClassVar


class IthacaError(Exception):
    """The root of the tree.

    >>> issubclass(Trimmed, IthacaError), Trimmed("gone", first=7).first
    (True, 7)
    """

    retry: ClassVar[bool] = False
    refresh: ClassVar[bool] = False
    outcome_unknown: bool = False

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors cross processes (multiprocessing, Spark), and their arguments are partly by keyword.
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[IthacaError], args: tuple[Any, ...], state: dict[str, Any]) -> IthacaError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(state)
    return error


def unknown_copy(error: IthacaError) -> IthacaError:
    """The same error, of something that may have happened all the same.

    >>> unknown_copy(StorageFull("no space")).outcome_unknown
    True
    """
    return _restored(type(error), error.args, error.__dict__ | {"outcome_unknown": True})


class InvalidInput(IthacaError, ValueError):
    """The caller passed something that can never work."""


class RecordTooLarge(InvalidInput):
    """A record's key and value exceed `limits.RECORD_BYTES_MAX`."""


class BatchTooLarge(InvalidInput):
    """A batch exceeds `limits.BATCH_BYTES_MAX` or `limits.BATCH_RECORDS_MAX`; batches are never split."""


class UnknownCompression(InvalidInput):
    """A compression that this version does not know, asked for or found."""


class ConfigError(InvalidInput):
    """A setting is wrong; `file` and `line` say where (line 0: the file as a whole)."""

    def __init__(self, message: str, *, file: str = "", line: int = 0) -> None:
        where = f"{file}:{line}: " if line else f"{file}: " if file else ""
        super().__init__(where + message)
        self.file = file
        self.line = line


class NoSuchShard(InvalidInput):
    """There is no shard of this number; one that was finalized and trimmed whole is gone."""


class NoSuchReplica(InvalidInput):
    """The shard has no replica of this number: it never had one, or it was removed. Numbers are never used again."""


class ShardFinalized(InvalidInput):
    """The shard takes no more records; what it has can be read."""


class LastShard(InvalidInput):
    """No other shard takes appends: add one first."""


class NoSuchOrderer(InvalidInput):
    """There is no orderer of this number, or no longer."""


class LastOrderer(InvalidInput):
    """No other orderer votes: add one first."""


class NoSuchUnit(InvalidInput):
    """The cluster has no storage unit of this number, or not any more."""


class NoSuchSession(InvalidInput):
    """No session has this name: it was never opened, or has expired."""


class NoSuchWriter(InvalidInput):
    """No writer of this name is remembered: it never published, or was forgotten."""


class NoSuchConsumer(InvalidInput):
    """No consumer has this name: it was never opened, was deleted, or has expired."""


class NoSuchUser(InvalidInput):
    """The cluster has no user of this name: it was never added, or was revoked."""


class NoSuchMethod(InvalidInput):
    """A replicated class has no such method, or one that cannot be a command."""


class NotEncodable(InvalidInput):
    """A value cannot be written to the log and come back as it was."""


class AddressInUse(InvalidInput):
    """Another server of the cluster has this address."""


class PositionError(IthacaError, LookupError):
    """The position cannot be read, for a reason that the subclass names."""


class NotWritten(PositionError):
    """Nothing has been ordered at this position yet; `tail` is the next position to be written."""

    retry = True

    def __init__(self, message: str, *, tail: int) -> None:
        super().__init__(message)
        self.tail = tail


class Trimmed(PositionError):
    """The position was trimmed away; `first` is the first one that can still be read."""

    def __init__(self, message: str, *, first: int) -> None:
        super().__init__(message)
        self.first = first


class Lost(PositionError):
    """The records of `[start, stop)` were ordered, and no replica holds them any more."""

    def __init__(self, message: str, *, start: int, stop: int) -> None:
        super().__init__(message)
        self.start = start
        self.stop = stop

    @classmethod
    def among(cls, start: int, stop: int) -> "Lost":
        """Of what is told with a filter, or of one shard, where nobody can say which of the positions it is."""
        why = f"some of positions {start} to {stop - 1} were ordered, and no replica holds their records any more, nor "
        why += (
            "where they stood: whoever reads all shards without a filter is told which they are, and gets the others; "
        )
        return cls(f"{why}or go on at position {stop}", start=start, stop=stop)

    @classmethod
    def at(cls, start: int, stop: int) -> "Lost":
        """Of all of these positions."""
        why = f"positions {start} to {stop - 1} were ordered, and no replica holds their records any more"
        return cls(f"{why}: go on at position {stop}", start=start, stop=stop)


class EmptyPosition(PositionError):
    """The position holds no record and never will: not every engine gives each position one.

    `next` is the position of the next record, 0 when it is not known. Iterations pass over such positions.
    """

    def __init__(self, message: str, *, next: int = 0) -> None:
        super().__init__(message)
        self.next = next

    @classmethod
    def at(cls, position: int, next: int = 0) -> "EmptyPosition":
        """What is said of this position."""
        goes_on = f"the next record is at {next}" if next else "read a range, or subscribe, to get the next record"
        return cls(f"position {position} holds no record and never will: {goes_on}", next=next)


class PositionTaken(PositionError):
    """The position is somebody else's: it holds other records, or was handed out to somebody who may still write it."""


class LogError(IthacaError):
    """The handle or the log as a whole cannot do this."""


class LogInUse(LogError):
    """Another process has the log open for writing; `pid` is its process id, 0 when it is not known."""

    retry = True

    def __init__(self, message: str, *, pid: int) -> None:
        super().__init__(message)
        self.pid = pid


class LogClosed(LogError):
    """The handle was closed."""


class ReadOnly(LogError):
    """The handle was opened for reading, or the directory cannot be written."""


class ForkedHandle(LogError):
    """The handle was inherited through a fork; open the log again in the child."""


class NoSuchLog(LogError):
    """There is no log at this path."""


class FormatTooNew(LogError):
    """A file or frame was written by a newer version."""

    def __init__(self, message: str, *, found: int, supported: int) -> None:
        super().__init__(message)
        self.found = found
        self.supported = supported


class Unsupported(LogError):
    """This engine cannot do this; the message says which can."""


class WrongObject(LogError):
    """Under this name the log holds an object of another class, or what no object has written."""


class WrongVersion(LogError):
    """A command or a snapshot is of version `found` of a class; this program applies the versions `supported`."""

    def __init__(self, message: str, *, found: int, supported: str) -> None:
        super().__init__(message)
        self.found = found
        self.supported = supported


class Diverged(LogError):
    """Replicas of one object came to different states; `position` and `method` name the first command that did it.

    While that is not known, `position` is 0 and the message names the range in which it stands.
    """

    def __init__(self, message: str, *, position: int = 0, method: str = "") -> None:
        super().__init__(message)
        self.position = position
        self.method = method


class NotAllowed(LogError):
    """Whoever asks has no right to do this. `right` names the one that it takes; `prefix`, where the right is given by
    prefixes of keys, names those."""

    def __init__(self, message: str, *, right: str, prefix: str = "") -> None:
        super().__init__(message)
        self.right = right
        self.prefix = prefix


class StorageError(IthacaError):
    """The disk failed the log."""


class StorageFull(StorageError):
    """No space was left; the append did not happen, and works again when space returns."""

    retry = True


class Fenced(StorageError):
    """A sync failed, so nothing is accepted any more; what was acknowledged is safe and readable."""

    outcome_unknown = True


class Corrupt(StorageError):
    """Bytes that were once synced do not check out; `file` and `offset` say which."""

    def __init__(self, message: str, *, file: str = "", offset: int = 0) -> None:
        super().__init__(f"{file} at byte {offset}: {message}" if file else message)
        self.file = file
        self.offset = offset

    def in_words(self, message: str) -> "Corrupt":
        """The same damage, said otherwise."""
        error = Corrupt(message)
        error.file, error.offset = self.file, self.offset
        return error


class Unavailable(IthacaError):
    """Not now."""

    retry = True
    refresh = True


class Overloaded(Unavailable):
    """A bound of `limits`, or of a user, was reached; nothing was accepted.

    >>> Overloaded("too fast", retry_after_ms=250).retry_after_s
    0.25
    """

    def __init__(self, message: str, *, retry_after_ms: int = 0) -> None:
        super().__init__(message)
        self.retry_after_ms = retry_after_ms

    @property
    def retry_after_s(self) -> float:
        """After how many seconds to try again; 0 when that is not known."""
        return self.retry_after_ms / 1000


class NamesFull(Unavailable):
    """The cluster keeps as many names, of sessions or of writers, as it can: have some of them go first."""

    retry = False
    refresh = False


class Conflict(Unavailable):
    """A transaction lost against others each time that it was tried; nothing of it took effect."""

    refresh = False


class DeadlineExceeded(Unavailable, TimeoutError):
    """The time-out passed first; an append may still take effect."""

    outcome_unknown = True


class SessionError(IthacaError):
    """An exactly-once session cannot go on with this batch."""


class SessionFenced(SessionError):
    """The session was opened again elsewhere, under a higher epoch."""


class SessionExpired(SessionError):
    """The session was forgotten; its retries cannot be told from new records, so they are refused."""


class SequenceGap(SessionError):
    """The batch neither continues the session nor repeats one of its last batches."""


class SequenceConflict(SessionError):
    """The batch has the numbers of one that the session has appended, and other records; nothing was appended now."""


class PublishConflict(SessionError):
    """The writer has published this key for another owner, or a later one; nothing was published now.

    `key` is the newest that was, by `owner`: `count` records from `position` on.
    """

    def __init__(self, message: str, *, writer: str, key: int, owner: str, position: int, count: int) -> None:
        super().__init__(message)
        self.writer = writer
        self.key = key
        self.owner = owner
        self.position = position
        self.count = count


class PartGone(SessionError):
    """A prepared part was aborted, has expired, or its replica was started again before it was finished.

    Nothing of it was published with this call: prepare it again.
    """


class ConsumerFenced(SessionError):
    """The consumer was opened again elsewhere, or reset: what this handle commits does not count any more."""


class WrongLane(SessionError):
    """The session's home is another lane."""

    retry = True
    refresh = True


class ProtocolError(IthacaError):
    """The peer sent bytes that are not ours, or not well-formed."""


class VersionMismatch(ProtocolError):
    """The peers share no version of the protocol."""


class EngineMismatch(ProtocolError):
    """The other side's cluster has the engine `engine`: not this side's, or one that this version does not know."""

    def __init__(self, message: str, *, engine: str) -> None:
        super().__init__(message)
        self.engine = engine


class AuthenticationFailed(ProtocolError):
    """The certificate or the token was refused, or must not be sent this way."""


class TaskFailed(IthacaError):
    """A function that a speculative task was given has raised; what it raised is the cause.

    Everything that was not published is undone. `position` is where to start again, `step` which function it was.
    """

    def __init__(self, message: str, *, position: int, step: str) -> None:
        super().__init__(message)
        self.position = position
        self.step = step


class UndoFailed(TaskFailed):
    """The task's undo has raised: its state holds changes that were never confirmed, and must be built again."""
