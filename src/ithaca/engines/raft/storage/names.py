"""Names: what the lane says of its newest ranges, before the Raft log does.

The batches of a range are synced together with a control entry before them (`storage.state.Named`), which holds the
entry of the Raft log. That makes the range durable with one sync. The Raft log gets it later, with others: before
anything else is written there, and before a trim could drop the segment.

A name counts as long as the Raft log ends where it did when the name was written (`storage.raftlog.Place`). Whatever is
written there, the entries named so far themselves, a cut, a vote, a compaction point, moves that end, and no name of
before counts again. So a cut is durable with the Raft log alone, and what was cut never comes back.

A name and its first batch are in one group of the lane, and so in one segment; batches of a large range may be in
further groups. Names are for the server that wrote them: whoever copies a lane gets batches alone.
"""

from collections.abc import Iterator, Sequence

import msgspec

from ithaca.engines.raft.replog.entries import Range, check_bytes, is_range, range_in, weigh
from ithaca.engines.raft.replog.state import length_in
from ithaca.model.errors import Corrupt, ProtocolError
from ithaca.model.limits import NAMED_BYTES_MAX, NAMED_RANGES_MAX
from ithaca.raft.messages import DurableState, Entry, EntryKind
from ithaca.storage.raftlog import Place, Verified
from ithaca.storage.reader import LaneReader
from ithaca.storage.state import Named, control_entry, control_in
from ithaca.wire.batch import CONTROL, Batch


def name_of(entry: Entry, place: Place) -> Batch:
    """The entry of the lane that names a range; its batches come behind it."""
    return control_entry(Named(*place, entry.index, entry.term, entry.data))


class NamedEntries:
    """Entries that are durable by their names alone."""

    def __init__(self) -> None:
        self.entries: tuple[Entry, ...] = ()
        self._bytes = 0

    def has_room(self, entries: Sequence[Entry]) -> bool:
        """Whether these are ranges, and so few that they may be named, too."""
        if not all(map(is_range, entries)) or len(self.entries) + len(entries) > NAMED_RANGES_MAX:
            return False
        return self._bytes + sum(map(weigh, entries)) <= NAMED_BYTES_MAX

    def add(self, entries: Sequence[Entry]) -> None:
        self.entries = (*self.entries, *entries)
        self._bytes += sum(map(weigh, entries))

    def clear(self) -> None:
        """They are in the Raft log, or gone."""
        self.entries, self._bytes = (), 0


def end_of(state: DurableState) -> int:
    """Where the lane ends with the last range."""
    for entry in reversed(state.entries):
        of = range_in(entry)
        if of is not None:
            return of.end_lsn
    return length_in(state.snapshot.data)


def with_named(lane: LaneReader, found: Verified) -> DurableState:
    """What a Raft log says together with what the lane names behind it.

    `Corrupt` when a name does not fit: then one of the two has lost what was synced.
    """
    state = found.state
    end = end_of(state)
    if not lane.first_lsns[0] <= end < lane.length:
        return state
    entries = list(state.entries)
    for named, of, batches in _ranges(lane, end, found.place):
        last_index, last_term = (
            (entries[-1].index, entries[-1].term) if entries else (state.snapshot.index, state.snapshot.term)
        )
        if named.index != last_index + 1 or not last_term <= named.term <= state.hard_state.term:
            said = f"entry {named.index} of term {named.term} is named behind entry {last_index} of term {last_term}"
            raise _wrong(lane, of.first_lsn, f"{said}, in term {state.hard_state.term}")
        try:
            check_bytes(of, batches, lane.seed)
        except ProtocolError as error:
            raise _wrong(lane, of.first_lsn, str(error)) from error
        entries.append(_entry_of(named))
    return msgspec.structs.replace(state, entries=tuple(entries))


def _ranges(lane: LaneReader, lsn: int, place: Place) -> Iterator[tuple[Named, Range, list[Batch]]]:
    """The ranges from an LSN on that are named and whole, up to the first batch that has no name."""
    named: Named | None = None
    of: Range | None = None
    batches: list[Batch] = []
    for entry in _entries(lane, lsn):
        if entry.kind == CONTROL:
            said = control_in(entry)
            if not isinstance(said, Named):
                continue
            if Place(said.generation, said.offset) > place:
                raise _wrong(lane, entry.base_lsn, f"the Raft log has lost what it had at byte {said.offset}")
            if Place(said.generation, said.offset) == place:
                if batches:
                    raise _wrong(lane, entry.base_lsn, f"entry {said.index} is named within the range before it")
                named = said
        elif entry.count:
            if named is None:
                return
            of = of or _range_of(lane, named, entry.base_lsn)
            batches.append(entry)
            if entry.end_lsn >= of.end_lsn:
                yield named, of, batches
                named, of, batches = None, None, []


def _entries(lane: LaneReader, lsn: int) -> Iterator[Batch]:
    """All entries from the end of the batch before `lsn` on, up to the last batch."""
    while lsn < lane.length:
        segment, end = lane.segment_of(lsn)
        at, offset = segment.offset_of(lsn - 1) if lsn > segment.first_lsn else (lsn, 0)
        for _, entry in segment.walk(offset, at):
            if entry.base_lsn >= lsn:
                yield entry
            if entry.end_lsn >= end:
                break
        lsn = end


def _range_of(lane: LaneReader, named: Named, lsn: int) -> Range:
    try:
        of = range_in(_entry_of(named))
    except ProtocolError as error:
        raise _wrong(lane, lsn, str(error)) from error
    if of is None or of.first_lsn != lsn:
        raise _wrong(lane, lsn, f"entry {named.index}, which is named here, is not the range from here on")
    return of


def _entry_of(named: Named) -> Entry:
    return Entry(named.index, named.term, EntryKind.PAYLOAD, named.data)


def _wrong(lane: LaneReader, lsn: int, problem: str) -> Corrupt:
    return Corrupt(f"the data log does not go with the Raft log at LSN {lsn}: {problem}", file=lane.directory)
