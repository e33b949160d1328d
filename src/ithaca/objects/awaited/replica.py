"""A replica of a class on the log: proposes commands, applies them in order, answers reads. The shell of `machine`."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, Unpack, overload

from ithaca.model.arguments import function, instance, whole
from ithaca.model.errors import InvalidInput, NotWritten
from ithaca.model.interface.awaited.log import ClusterLog, Log
from ithaca.model.paths import local_path
from ithaca.model.records import KeyFilter, Record
from ithaca.model.units import Duration
from ithaca.objects.awaited.catalogue import announce, beginning, trim_behind
from ithaca.objects.awaited.follower import Follower
from ithaca.objects.awaited.proposal import Proposal
from ithaca.objects.awaited.snapshots import DirectorySnapshots, LogSnapshots, Snapshots
from ithaca.objects.awaited.waiting import Promise
from ithaca.objects.entries import FORMAT, Opened, Snapshotted
from ithaca.objects.kind import Kind, State
from ithaca.objects.limit import Limit
from ithaca.objects.machine import Append, Arrived, Effect, Outcome, ReadAgain, Save, SnapshotWanted
from ithaca.objects.names import checked_name, command_key
from ithaca.objects.settings import Options, Settings
from ithaca.objects.shared.replica import ReplicaBase
from ithaca.objects.snapshot import Snapshot
from ithaca.runtime.checks import check_position

Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")


class Replica(ReplicaBase[State], Follower[Effect], Generic[State]):
    """One replica of an object: `replicate` makes it, entering its context opens it.

    Any number of replicas, in any number of processes, come to the same state, since all of them apply the same
    commands in the order of the log.
    """

    def __init__(
        self, log: Log, kind: Kind[State], *, name: str, settings: Settings, scratch: Kind[State] | None = None
    ) -> None:
        """`scratch` makes the states of `as_of`, where the kind's own are kept somewhere."""
        Follower.__init__(self, log, KeyFilter.equals(command_key(checked_name(name))), name)
        self._set_up(kind, settings, scratch)
        # A sync cannot be abandoned: with a time-out the log of a directory leaves it to another thread, which costs
        # more than the sync. So only the wait for the result is bounded there.
        self._append_timeout = self.timeout if isinstance(log, ClusterLog) else None
        self._snapshots = _kept_in(settings.snapshots, log, name)

    # Life

    async def _begin(self) -> None:
        await self.begin(await self._started())
        if self._machine.count == 0 and not self._settings.read_only:
            await announce(self.log, Opened(FORMAT, self.name, self._kind.name, self._kind.version))

    async def close(self) -> None:
        """Follow no more; whoever waits is told so. The log stays open. Idempotent."""
        await super().close()
        with self.lock:
            self._machine.release()

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
        limit, promise = Limit(self.timeout), Promise[Outcome]()
        number, value = self._prepared(promise, method, arguments, named)
        try:
            await self.log.append(value, key=self._key, timeout=self._append_timeout)
        except BaseException:
            self.forget(number)
            raise
        return (await promise.wait(limit.left_s, "the command")).get()

    async def submit(self, method: Any, *arguments: Any, **named: Any) -> Proposal[Any]:
        """`propose` without waiting for the result; waits only while too many bytes are in flight."""
        promise = Promise[Outcome]()
        number, value = self._prepared(promise, method, arguments, named)
        try:
            pending = await self.log.submit(value, key=self._key)
        except BaseException:
            self.forget(number)
            raise
        return Proposal(self, number, promise, pending)

    # Reads

    async def read(
        self, query: Callable[[State], Returned], *, at_least: int | None = None, timeout: Duration | None = None
    ) -> Returned:
        """`local` once everything that was acknowledged before this call is applied: linearizable.

        With `at_least`, once the record at that position is: what a receipt, or another replica, has named.
        """
        limit = Limit(self.timeout if timeout is None else timeout)
        self.check()
        function(query, "query")
        if at_least is not None:
            whole(at_least, "at_least")
        if at_least is None:
            await self.fresh(limit)
        else:
            await self.caught_up(at_least, timeout=timeout)
        return self.local(query)

    async def caught_up(self, position: int, *, timeout: Duration | None = None) -> None:
        """Wait until the record at `position`, and all before it, are applied here; 0 waits for nothing."""
        self.check()
        whole(position, "position")
        await self.reach(position + 1, Limit(self.timeout if timeout is None else timeout))

    async def sync(self, *, timeout: Duration | None = None) -> int:
        """Wait until everything that was acknowledged before this call is applied; returns the tail at that time."""
        self.check()
        return await self.fresh(Limit(self.timeout if timeout is None else timeout))

    async def as_of(self, position: int) -> State:
        """The state behind the record at `position`, played again from the newest snapshot before it."""
        check_position(position)
        machine = self._past_machine()
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

    async def _saved(self, snapshot: Snapshot) -> None:
        assert self._snapshots is not None
        await self._snapshots.save(snapshot)
        if self._settings.retain:
            position, retain = snapshot.head.position, tuple(self._settings.retain)
            await trim_behind(self.log, Snapshotted(FORMAT, self.name, self._settings.replica, position, retain))

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
            for effect in self._read_back(chore.position, records):
                await self._perform(effect)


def _kept_in(snapshots: str | os.PathLike[str] | None, log: Log, name: str) -> Snapshots | None:
    if snapshots is None:
        return None
    return (
        LogSnapshots(log, name) if snapshots == "log" else DirectorySnapshots(Path(local_path(snapshots, "snapshots")))
    )


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
    instance(of, type, "of", "a class, whose methods are the commands")
    kind = Kind(of, of, name=of.__name__, version=version, accepts=accepts)
    return Replica(log, kind, name=of.__name__ if name is None else name, settings=Settings(**settings))
