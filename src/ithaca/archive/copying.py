"""Appending what a log or a backup holds to another log, each record once.

The target has a session for it, whose next number says how many records are there. Its name is made of what is copied
and from where on, so that the same copy, begun again after whatever ended it, goes on with the next record. Batches
become larger on the way, never smaller. What does not come along is a record's time: that is the producer's, and
this is the producer here.
"""

import hashlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ithaca.archive.checks import check_log
from ithaca.archive.folder import chunks
from ithaca.archive.places import place_of
from ithaca.archive.progress import Advance, Done
from ithaca.model.arguments import flag, optional_function, text
from ithaca.model.errors import InvalidInput, Trimmed
from ithaca.model.interface import Log
from ithaca.model.limits import MIB
from ithaca.model.paths import AnyPath
from ithaca.model.records import Record
from ithaca.runtime.checks import check_position

GROUP_BYTES = 4 * MIB
GROUP_RECORDS = 10_000
"""What is appended together; one record may be larger."""


class Copied(NamedTuple):
    """What the target has of the source by now, and what this run added."""

    records: int
    added: int


def copy_log(source: Log, target: Log, name: str, advance: Advance | None = None, *, start: int = 1) -> Copied:
    """Append to `target` what `source` holds from `start` on, up to its tail as it is now.

    `name` is what the source is called, the same whenever this copy is taken up again.

    >>> import ithaca, tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     with ithaca.open(f"{place}/a") as one, ithaca.open(f"{place}/b") as other:
    ...         receipt = one.append_many([b"x", b"y"])
    ...         copy_log(one, other, "a"), copy_log(one, other, "a")
    (Copied(records=2, added=2), Copied(records=2, added=0))
    """
    check_log(source, "source")
    check_log(target, "target")
    text(name, "name", "what the source is called, the same in each run")
    optional_function(advance, "advance")
    check_position(start, "start")
    first, tail = source.first(), source.tail()
    if first > start:
        raise Trimmed(
            f"the log begins at position {first}, and not at {start}: copy from {first} on, and say the same when you "
            "go on with this copy",
            first=first,
        )
    with source.read_range(min(start, tail), tail) as records:
        found = (record for batch in records.batches() for record in batch.records())
        return pour(found, target, f"copy of {digest(name)} from {start}", advance, max(0, tail - start))


def restore(backup: AnyPath, target: Log, advance: Advance | None = None, *, renumber: bool = False) -> Copied:
    """Append all that a backup, in a directory or at a URL, holds to a log that is empty, at the same positions.

    `InvalidInput` where that cannot be: the backup does not begin at 1, or something else is in the log. With
    `renumber` records get the positions that come, in the same order.
    """
    check_log(target, "target")
    optional_function(advance, "advance")
    flag(renumber, "renumber")
    place = place_of(backup)
    there = chunks(place)
    if there and there[0].start > 1 and not renumber:
        raise InvalidInput(
            f"the backup in {place} begins at position {there[0].start}, and no log can: restore it with renumber "
            "(--renumber), which keeps the order and gives other positions"
        )
    found = (record for chunk in there for batch in chunk.batches() for record in batch.records(batch.base_lsn + 1, 0))
    # The head of the first batch tells a backup from others, wherever it lies.
    name = f"restore of {digest(f'{there[0].start} {there[0].read()[:64].hex()}') if there else '-'}"
    total = there[-1].stop - there[0].start if there else 0
    return pour(found, target, name, advance, total, same_positions=not renumber)


def pour(
    records: Iterable[Record],
    target: Log,
    session_name: str,
    advance: Advance | None,
    total: int | None,
    *,
    same_positions: bool = False,
) -> Copied:
    """Append to the target what its session has not; `total` is how many positions the records come from, if known."""
    session = target.session(session_name)
    done = session.next_seq - 1
    if same_positions and target.tail() != done + 1:
        raise InvalidInput(
            f"the log holds {target.tail() - 1 - done} other records: restore into an empty one, or renumber "
            "(--renumber), which appends behind them"
        )
    seen = added = last = 0
    for group, size in _grouped(records):
        seen += len(group)
        step = Done(group[-1].position - (last or group[0].position - 1), size, total)
        last = group[-1].position
        if advance is not None and seen <= done:
            advance(step)
        if seen <= done:
            continue
        fresh = group[max(0, done - (seen - len(group))) :]
        keys = [record.key for record in fresh] if any(record.key is not None for record in fresh) else None
        gap = next((at for at, each in enumerate(fresh, seen - len(fresh) + 1) if each.position != at), None)
        if same_positions and gap is not None:
            raise InvalidInput(
                f"position {gap} holds no record in the backup, and a log that is filled again has one everywhere: "
                "restore it with renumber (--renumber), which keeps the order and gives other positions"
            )
        receipt = session.append_many([record.value for record in fresh], keys=keys)
        if same_positions and receipt.position != fresh[0].position:
            raise InvalidInput(
                f"record {fresh[0].position} of the backup was put at {receipt.position}: somebody else appends to the "
                "log, or its engine leaves positions empty. Begin again with an empty log that nobody uses, or renumber"
            )
        added += len(fresh)
        if advance is not None:
            advance(step)
    return Copied(max(done, seen), added)


def _grouped(records: Iterable[Record]) -> Iterator[tuple[list[Record], int]]:
    """Records that are appended together, and their bytes."""
    group: list[Record] = []
    size = 0
    for record in records:
        group.append(record)
        size += len(record.value) + len(record.key or b"")
        if size >= GROUP_BYTES or len(group) >= GROUP_RECORDS:
            yield group, size
            group, size = [], 0
    if group:
        yield group, size


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
