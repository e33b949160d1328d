"""A replica of a class on the log: proposes commands, applies them in order, answers reads. The shell of `machine`."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import get_ident
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, Unpack, overload

import msgspec

from ithaca.model.errors import Diverged, InvalidInput, LogClosed, NotWritten, Overloaded, RecordTooLarge
from ithaca.model.interface.awaited.log import ClusterLog, Log, Pending
from ithaca.model.limits import RECORD_BYTES_MAX
from ithaca.model.records import KeyFilter, Record
from ithaca.objects.awaited.catalogue import announce, beginning, trim_behind
from ithaca.objects.awaited.follower import Follower, _log
from ithaca.objects.awaited.snapshots import DirectorySnapshots, LogSnapshots, Snapshots
from ithaca.objects.awaited.waiting import Promise
from ithaca.objects.encoding import detached
from ithaca.objects.entries import FORMAT, Command, Opened, Snapshotted, encode
from ithaca.objects.kind import Kind, State
from ithaca.objects.limit import Limit
from ithaca.objects.limits import OBJECT_PROPOSALS_MAX
from ithaca.objects.machine import (
    Answer,
    Append,
    Arrived,
    Effect,
    Fail,
    Machine,
    Outcome,
    Pace,
    ReadAgain,
    ReadBack,
    Save,
    SnapshotWanted,
)
from ithaca.objects.names import checked_name, command_key
from ithaca.objects.settings import Options, Settings
from ithaca.objects.snapshot import Snapshot
from ithaca.runtime.machine import rng

Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")


class Proposal(Generic[Returned]):
    """A command under way: its `result` is what the method returned, or raises what it raised.

    >>> async def twice(counter: "Replica[Any]") -> list[int]:
    ...     proposals = [await counter.submit("add", 1) for _ in range(2)]
    ...     return [await each.result() for each in proposals]
    """

    def __init__(self, replica: "Replica[Any]", number: int, promise: Promise[Outcome], pending: Pending) -> None:
        self._replica = replica
        self._number = number
        self._promise = promise
        self._pending = pending

    async def result(self, timeout: float | None = None) -> Returned:
        """Wait until the command was applied here; `DeadlineExceeded` when that takes longer, and it may still be."""
        limit = Limit(self._replica.timeout if timeout is None else timeout)
        if not self._promise.done():
            try:
                await self._pending.result(limit.left_s)
            except BaseException:
                self._replica.forget(self._number)
                raise
        returned: Returned = (await self._promise.wait(limit.left_s, "the command")).get()
        return returned

    def done(self) -> bool:
        """Whether it was applied here."""
        return self._promise.done()


class Replica(Follower[Effect], Generic[State]):
    """One replica of an object: `replicate` makes it, entering its context opens it.

    Any number of replicas, in any number of processes, come to the same state, since all of them apply the same
    commands in the order of the log.
    """

    def __init__(
        self, log: Log, kind: Kind[State], *, name: str, settings: Settings, scratch: Kind[State] | None = None
    ) -> None:
        """`scratch` makes the states of `as_of`, where the kind's own are kept somewhere."""
        super().__init__(log, KeyFilter.equals(command_key(checked_name(name))), name)
        self.timeout = settings.timeout
        self._settings = settings
        # A sync cannot be abandoned: with a time-out the log of a directory leaves it to another thread, which costs
        # more than the sync. So only the wait for the result is bounded there.
        self._append_timeout = settings.timeout if isinstance(log, ClusterLog) else None
        self._kind = kind
        self._scratch = scratch or kind
        self._key = command_key(name)
        self._origin = rng().getrandbits(63)
        self._number = 0
        self._answers: dict[int, Promise[Outcome]] = {}
        self._snapshots = _kept_in(settings.snapshots, log, name)
        replica = settings.replica or f"{self._origin:x}"
        self._machine: Machine[State] = Machine(kind, name, origin=self._origin, replica=replica, pace=settings.pace)

    def __repr__(self) -> str:
        state = "failed" if self.failure is not None else "open" if self.is_open else "not open"
        return f"<Replica {self.name!r} of {self._kind.name}, {state}, at position {self._machine.position}>"

    # Life

    async def open(self) -> Self:
        """Play the log from the newest snapshot up to its tail, and follow it from then on."""
        if self.failure is not None:
            raise self.failure
        if not self.is_open:
            try:
                await self.begin(await self._started())
                if self._machine.count == 0 and not self._settings.read_only:
                    await announce(self.log, Opened(FORMAT, self.name, self._kind.name, self._kind.version))
            except BaseException:
                await self.close()
                raise
        return self

    async def close(self) -> None:
        """Follow no more; whoever waits is told so. The log stays open. Idempotent."""
        await self.end()
        with self.lock:
            self._machine.release()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.close()

    # Commands

    @overload
    async def propose(
        self,
        method: Callable[Concatenate[State, Parameters], Returned],
        *arguments: Parameters.args,
        **named: Parameters.kwargs,
    ) -> Returned: ...

    @overload
    async def propose(self, method: str, *arguments: Any, **named: Any) -> Any: ...

    async def propose(self, method: Any, *arguments: Any, **named: Any) -> Any:
        """Have all replicas call this method, and return what it returned here, or raise what it raised.

        It returns once the command is durable, ordered and applied by this replica. After `DeadlineExceeded`, and
        whatever else has `outcome_unknown`, the command may still be applied.
        """
        limit = Limit(self.timeout)
        number, promise, value = self._prepared(method, arguments, named)
        try:
            await self.log.append(value, key=self._key, timeout=self._append_timeout)
        except BaseException:
            self.forget(number)
            raise
        return (await promise.wait(limit.left_s, "the command")).get()

    async def submit(self, method: Any, *arguments: Any, **named: Any) -> Proposal[Any]:
        """`propose` without waiting for the result; waits only while too many bytes are in flight."""
        number, promise, value = self._prepared(method, arguments, named)
        try:
            pending = await self.log.submit(value, key=self._key)
        except BaseException:
            self.forget(number)
            raise
        return Proposal(self, number, promise, pending)

    def _prepared(
        self, method: Any, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[int, Promise[Outcome], bytes]:
        """A command with its number, and who waits for it."""
        self.check()
        found = self._kind.method(method)
        data = msgspec.Raw(found.encode(arguments, named))
        promise: Promise[Outcome] = Promise()
        with self.lock:
            if len(self._answers) >= OBJECT_PROPOSALS_MAX:
                raise Overloaded(
                    f"{OBJECT_PROPOSALS_MAX} commands of {self.name} wait for their results: wait for some"
                )
            self._number = number = self._number + 1
            self._answers[number] = promise
        value = encode(Command(self._kind.name, self._kind.version, self._origin, number, found.name, data))
        if len(value) + len(self._key) > RECORD_BYTES_MAX:
            self.forget(number)
            raise RecordTooLarge(
                f"the arguments of {self._kind.name}.{found.name} take {len(data)} bytes, and a command has at most "
                f"{RECORD_BYTES_MAX}: split it, or append the large part and propose its position"
            )
        return number, promise, value

    def forget(self, number: int) -> None:
        """Nobody waits for this command any more."""
        with self.lock:
            self._answers.pop(number, None)

    # Reads

    @property
    def position(self) -> int:
        """Everything below was applied here."""
        return self._machine.position

    @property
    def time_us(self) -> int:
        """When the last command that was applied here was proposed; 0 before the first."""
        return self._machine.time_us

    def local(self, query: Callable[[State], Returned]) -> Returned:
        """What the query returns for the state as it is here, which may be behind others. It must change nothing."""
        if self.failure is not None or not self.is_open or self.holder:
            self.check()
        with self.lock:
            self.holder = get_ident()
            try:
                value: Returned = detached(query(self._machine.state))
            finally:
                self.holder = 0
        return value

    def look(self, query: Callable[[State], Returned]) -> Returned:
        """`local` without a copy, for a query that gives away nothing of the state that can change."""
        self.check()
        with self.lock:
            self.holder = get_ident()
            try:
                return query(self._machine.state)
            finally:
                self.holder = 0

    async def read(
        self, query: Callable[[State], Returned], *, at_least: int | None = None, timeout: float | None = None
    ) -> Returned:
        """The same once everything that was acknowledged before this call is applied: linearizable.

        With `at_least`, once the record at that position is: what a receipt, or another replica, has named.
        """
        limit = Limit(self.timeout if timeout is None else timeout)
        self.check()
        if at_least is None:
            await self.fresh(limit)
        else:
            await self.caught_up(at_least, timeout=timeout)
        return self.local(query)

    async def caught_up(self, position: int, *, timeout: float | None = None) -> None:
        """Wait until the record at `position`, and all before it, are applied here; 0 waits for nothing."""
        self.check()
        await self.reach(position + 1, Limit(self.timeout if timeout is None else timeout))

    async def sync(self, *, timeout: float | None = None) -> int:
        """Wait until everything that was acknowledged before this call is applied; returns the tail at that time."""
        self.check()
        return await self.fresh(Limit(self.timeout if timeout is None else timeout))

    async def as_of(self, position: int) -> State:
        """The state behind the record at `position`, played anew from the newest snapshot before it."""
        machine: Machine[State] = Machine(self._scratch, self.name, origin=0, replica="", pace=Pace())
        tail = await self.log.tail()
        if position >= tail:
            raise NotWritten(f"position {position} is not written yet; the tail is {tail}", tail=tail)
        snapshot = None if self._snapshots is None else await self._snapshots.newest(position + 1)
        if snapshot is not None:
            self._restore(machine, snapshot)
        else:
            machine.step(Arrived((), await beginning(self.log, self.name, self.where)))
        async with self.log.read_range(min(machine.position, position + 1), position + 1, where=self.where) as records:
            while batches := await records.take_batches(None):
                machine.step(Arrived([record for batch in batches for record in batch.records()], records.position))
        return machine.state

    # Snapshots

    async def snapshot(self) -> int:
        """Take a snapshot now; returns its position, below which this replica needs the log no more."""
        if self._snapshots is None:
            raise InvalidInput(f'{self.name} keeps no snapshots: pass snapshots="./directory" or snapshots="log"')
        self.check()
        with self.lock:
            effects = self._machine.step(SnapshotWanted())
        for effect in effects:
            await self._perform(effect)
        assert isinstance(effects[0], Save)
        return effects[0].snapshot.head.position

    async def _started(self) -> int:
        """Where to play from: where the state stands by itself, the newest snapshot, else the object's beginning."""
        head = self._machine.kept_head()
        if head is not None:
            self._restore(self._machine, Snapshot(head, b""), self._machine.state)
            return self._machine.position
        snapshot = None if self._snapshots is None else await self._snapshots.newest()
        if snapshot is None:
            return await beginning(self.log, self.name, self.where)
        self._restore(self._machine, snapshot)
        return self._machine.position

    def _restore(self, machine: Machine[State], snapshot: Snapshot, state: State | None = None) -> None:
        snapshot.check_of(self.name, self._kind.name, f"the snapshot at position {snapshot.head.position}")
        machine.restore(snapshot, state)

    async def _saved(self, snapshot: Snapshot) -> None:
        assert self._snapshots is not None
        await self._snapshots.save(snapshot)
        if self._settings.retain:
            position, retain = snapshot.head.position, tuple(self._settings.retain)
            await trim_behind(self.log, Snapshotted(FORMAT, self.name, self._settings.replica, position, retain))

    # What the machine says

    def _take(self, records: Sequence[Record], covered: int, live: bool) -> list[Effect]:
        chores: list[Effect] = []
        for effect in self._machine.step(Arrived(records, covered, live and not self._settings.read_only)):
            if isinstance(effect, Answer):
                promise = self._answers.pop(effect.number, None)
                if promise is not None:
                    promise.give(effect.outcome)
            elif isinstance(effect, Fail):
                self._suspect(effect.error)
            else:
                chores.append(effect)
        return chores

    def _suspect(self, error: BaseException) -> None:
        if self._settings.checks == "stop":
            self._fail(error)
        else:
            _log.error("%s: %s", self.name, error)

    def _fail(self, error: BaseException) -> None:
        if isinstance(self.failure, Diverged) and self.failure.position and isinstance(error, Diverged):
            return  # the first command that differed is known already
        super()._fail(error)
        answers, self._answers = self._answers, {}
        told = error if not isinstance(error, LogClosed) else _closed_early(self.name)
        for promise in answers.values():
            promise.fail(told)

    async def _perform(self, chore: Effect) -> None:
        if isinstance(chore, Save):
            await self._saved(chore.snapshot)
        elif isinstance(chore, Append):
            if not self._settings.read_only:
                await self.log.append(chore.value, key=self._key)
        elif isinstance(chore, ReadAgain):
            async with self.log.read_range(chore.start, chore.position + 1, where=self.where) as found:
                records: list[Record] = []
                while batches := await found.take_batches(None):
                    for batch in batches:
                        records += batch.records()
            with self.lock:
                effects = self._machine.step(ReadBack(chore.position, records))
                for effect in effects:
                    if isinstance(effect, Fail):
                        self._suspect(effect.error)
            for effect in effects:
                await self._perform(effect)


def _closed_early(name: str) -> LogClosed:
    error = LogClosed(f"{name} was closed before the command was applied here: its outcome is unknown")
    error.outcome_unknown = True
    return error


def _kept_in(snapshots: str | os.PathLike[str] | None, log: Log, name: str) -> Snapshots | None:
    if snapshots is None:
        return None
    return LogSnapshots(log, name) if snapshots == "log" else DirectorySnapshots(Path(snapshots))


def replicate(
    log: Log,
    of: type[State],
    *,
    name: str | None = None,
    version: int = 1,
    accepts: Sequence[int] = (),
    **settings: Unpack[Options],
) -> Replica[State]:
    """A replica of `of` on this log, where it is called `name`; any class whose methods are deterministic.

    `version` is the class's; commands of versions that are not in `accepts` are refused. `ithaca.objects.Settings` has
    the other arguments: where snapshots are kept, who must have one before the log is trimmed, what is checked.

    >>> import asyncio, ithaca.aio, ithaca.objects.aio
    >>> class Counter:
    ...     def __init__(self) -> None:
    ...         self.value = 0
    ...     def add(self, amount: int) -> int:
    ...         self.value += amount
    ...         return self.value
    >>> async def main() -> int:
    ...     async with ithaca.aio.open("./counts") as log, ithaca.objects.aio.replicate(log, Counter) as counter:
    ...         added = await counter.propose(Counter.add, 2)
    ...         return await counter.read(lambda state: state.value)
    >>> asyncio.run(main())
    2
    """
    kind = Kind(of, of, name=of.__name__, version=version, accepts=accepts)
    return Replica(log, kind, name=name or of.__name__, settings=Settings(**settings))
