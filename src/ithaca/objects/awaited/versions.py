"""Objects with versions, each in the shard of the caller's choice, read directly by position (vScalog)."""

from ithaca.model.arguments import instance, whole
from ithaca.model.errors import NoSuchShard, ShardFinalized, Unsupported
from ithaca.model.interface.awaited.log import ClusterLog, Log
from ithaca.model.records import Buffer, KeyFilter, Receipt
from ithaca.model.units import Duration
from ithaca.objects.awaited.catalogue import announce
from ithaca.objects.awaited.follower import Follower
from ithaca.objects.entries import FORMAT, Opened
from ithaca.objects.limit import Limit
from ithaca.objects.limits import OBJECT_TIMEOUT_S
from ithaca.objects.names import checked_name, version_prefix
from ithaca.objects.shared.versions import VersionsBase
from ithaca.objects.transaction import checked_key
from ithaca.objects.version_index import Version
from ithaca.runtime.checks import check_position, check_shard_number

_MOVES = (NoSuchShard, ShardFinalized, Unsupported)
"""A shard that takes no more, so that the object moves; or none is chosen."""


class Versions(VersionsBase, Follower[None]):
    """Objects whose versions all stay readable, by position, until they are trimmed.

    A version is a record of the log as it is: the value, under the object's name. It is written to the shard that the
    caller names, else to the one that has the object's newest version; and read from there without looking elsewhere.

    >>> import asyncio, ithaca.aio, ithaca.objects.aio
    >>> async def main() -> tuple[bytes | None, bytes | None]:
    ...     async with ithaca.aio.open("./pages") as log, ithaca.objects.aio.Versions(log) as pages:
    ...         first = await pages.put(b"home", b"hello")
    ...         second = await pages.put(b"home", b"hello again")
    ...         return await pages.get(b"home"), await pages.get(b"home", as_of=first.position)
    >>> asyncio.run(main())
    (b'hello again', b'hello')
    """

    def __init__(self, log: Log, name: str = "versions", *, timeout: Duration | None = OBJECT_TIMEOUT_S) -> None:
        prefix = version_prefix(checked_name(name))
        Follower.__init__(self, log, KeyFilter.prefix(prefix), name)
        self._set_up(prefix, timeout)

    async def _begin(self) -> None:
        await self.begin(await self.log.first())

    # Writing

    async def put(self, name: bytes, value: Buffer, *, shard: int | None = None) -> Version:
        """Append a version of an object, to this shard; `NoSuchShard`, `ShardFinalized`.

        Without a shard it goes to where its newest version is, as far as this handle knows, else where the log puts it.
        """
        self.check()
        checked_key(name)
        check_shard_number(shard)
        if not self._announced:
            await announce(self.log, Opened(FORMAT, f"versions/{self.name}", "ithaca.Versions", 1))
            self._announced = True
        if shard is not None:
            receipt = await self._append(shard, name, value)
        else:
            newest = self._newest(name)
            try:
                receipt = await self._append(None if newest is None else newest.shard, name, value)
            except _MOVES:
                receipt = await self._append(None, name, value)
        return self._put(Version(name, receipt.position, receipt.shard))

    async def _append(self, shard: int | None, name: bytes, value: Buffer) -> Receipt:
        key = self._prefix + name
        if shard is None:
            return await self.log.append(value, key=key, timeout=self.timeout)
        if isinstance(self.log, ClusterLog):
            return await self.log.append_to_shard(shard, value, key=key, timeout=self.timeout)
        if shard != 0:
            raise NoSuchShard(f"there is no shard {shard}: the log of a directory has shard 0 alone")
        return await self.log.append(value, key=key, timeout=self.timeout)

    # Reading

    async def get(
        self, name: bytes, *, as_of: int | None = None, at_least: int | None = None, timeout: Duration | None = None
    ) -> bytes | None:
        """The value of the newest version, or of the newest one up to `as_of`; None when there is none."""
        version = await self.newest(name, as_of=as_of, at_least=at_least, timeout=timeout)
        return None if version is None else await self.read(version)

    async def newest(
        self, name: bytes, *, as_of: int | None = None, at_least: int | None = None, timeout: Duration | None = None
    ) -> Version | None:
        """Where the newest version is, or the newest one up to `as_of`.

        Linearizable, or with `at_least` as fresh as that position: 0 is what is known here. A version up to a position
        is settled as soon as everything up to there is indexed.
        """
        limit = Limit(self.timeout if timeout is None else timeout)
        self.check()
        checked_key(name)
        if as_of is not None:
            check_position(as_of, "as_of")
        if at_least is not None:
            whole(at_least, "at_least")
        if at_least is None and (as_of is None or as_of >= self.covered):
            await self.fresh(limit)
        elif at_least is not None:
            await self.reach(at_least + 1, limit)
        with self.lock:
            return self._index.newest(name, as_of)

    async def read(self, version: Version) -> bytes:
        """The value of a version: one request, to its shard."""
        instance(version, Version, "version", "what newest, put or history gave")
        return (await self.log.read(version.position, shard=version.shard)).value

    async def history(self, name: bytes, *, timeout: Duration | None = None) -> list[Version]:
        """All versions of an object that are not trimmed, the oldest first."""
        self.check()
        checked_key(name)
        await self.fresh(Limit(self.timeout if timeout is None else timeout))
        first = await self.log.first()
        with self.lock:
            return [version for version in self._index.history(name) if version.position >= first]

    async def _perform(self, chore: None) -> None:
        raise AssertionError("an index has nothing to do")
