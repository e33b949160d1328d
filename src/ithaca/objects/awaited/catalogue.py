"""Which objects a log holds, and what of it they need: read, announced, and trimmed by."""

from ithaca.model.interface.awaited.log import Log
from ithaca.model.records import KeyFilter
from ithaca.objects.entries import CatalogueEntry, Opened, Snapshotted, encode, kept_of
from ithaca.objects.names import CATALOGUE_KEY
from ithaca.objects.retaining import beginning_trimmed, trim_point


async def catalogue(log: Log, first: int) -> list[tuple[int, CatalogueEntry]]:
    """What was announced from `first` on, at its positions."""
    entries: list[tuple[int, CatalogueEntry]] = []
    async with log.read_range(first, where=KeyFilter.equals(CATALOGUE_KEY)) as records:
        async for record in records:
            entry = kept_of(record)
            if isinstance(entry, Opened | Snapshotted):
                entries.append((record.position, entry))
    return entries


async def announce(log: Log, entry: Opened) -> None:
    """Nobody has proposed anything yet: from here on nothing may be trimmed that is not snapshotted."""
    if not any(each.object == entry.object for _, each in await catalogue(log, await log.first())):
        await log.append(encode(entry), key=CATALOGUE_KEY)


async def trim_behind(log: Log, entry: Snapshotted) -> None:
    """A replica has a snapshot: trim what no object needs any more."""
    await log.append(encode(entry), key=CATALOGUE_KEY)
    first = await log.first()
    before = trim_point(await catalogue(log, first))
    if before > first:
        await log.trim(before)


async def beginning(log: Log, name: str, where: KeyFilter) -> int:
    """Where an object begins in a log from which something was trimmed: never behind a command of its own."""
    first = await log.first()
    if first == 1:
        return 1
    own = [entry for _, entry in await catalogue(log, first) if entry.object == name]
    if own and isinstance(own[0], Opened):
        return first
    known = bool(own)
    async with log.read_range(first, where=where) as records:
        async for _ in records:
            known = True
            break
    if known:
        raise beginning_trimmed(name, first)
    return first
