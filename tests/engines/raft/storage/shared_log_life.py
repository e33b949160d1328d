"""A seeded life of a server's disk: ranges, conflicts, compactions, copies and trims, cut short at any operation."""

from collections.abc import Sequence
from random import Random

import msgspec
import pytest
from tests.engines.raft.batches import batch_of
from tests.storage.lanes import shrink_limits

from ithaca.engines.raft.replog.entries import TrimLog, encode_entry, range_in, range_of
from ithaca.engines.raft.replog.state import LogState
from ithaca.engines.raft.storage import names, shared_log
from ithaca.engines.raft.storage.shared_log import SEED, SharedLog, SharedLogFiles
from ithaca.model.errors import StorageFull
from ithaca.raft.events import Persist
from ithaca.raft.messages import DurableState, Entry, EntryKind, HardState, Snapshot, first_state
from ithaca.sim.disk import PowerLoss, SimDisk, Tear
from ithaca.storage.raftlog import verify
from ithaca.storage.reader import Cursor
from ithaca.wire.batch import NOOPS, Batch

NEVER = 1 << 60
DIRECTORY = "/server"
SEGMENT_BYTES = 2048


def shrink(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small files, groups and bounds, so that few operations have everything in them."""
    shrink_limits(monkeypatch)
    monkeypatch.setattr(shared_log, "ZERO_AHEAD_BYTES", 64)
    monkeypatch.setattr(shared_log, "GROUP_BYTES_MAX", 400)
    monkeypatch.setattr(names, "NAMED_RANGES_MAX", 7)


def point(index: int, term: int, length: int) -> Snapshot:
    """A compaction point whose log is so long."""
    state = LogState()
    state.length = length
    return Snapshot(index, term, first_state(1, 2, 3).snapshot.configuration, b"".join(state.snapshot()))


class Life:
    """The store, and what it must hold."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.disk = SimDisk()
        self.disk.make_directory(DIRECTORY)
        self.files = SharedLogFiles(SEGMENT_BYTES)
        self.state = first_state(1, 2, 3)
        """What is on the disk, once the persist that is under way is."""
        self.batches: list[Batch] = []
        """Of the ranges in `state`, and of all before its compaction point."""
        self.commit_index = 0
        self.copied: list[Batch] = []
        """With what a copy that was given up has left."""
        self.sequence = self.texts = 0
        self.crashes = self.cuts = self.copies = self.full = self.restored = 0
        self.store = self.files.create(self.disk, DIRECTORY, self.state)

    # What the model says

    @property
    def last_index(self) -> int:
        return self.state.snapshot.index + len(self.state.entries)

    def end_at(self, index: int) -> int:
        """Where the lane ends with the entry at this index."""
        for entry in reversed(self.state.entries):
            of = range_in(entry) if entry.index <= index else None
            if of is not None:
                return of.end_lsn
        return LogState.restored(self.state.snapshot.data).length

    def _until(self, lsn: int) -> list[Batch]:
        return [batch for batch in self.batches if batch.end_lsn <= lsn]

    # What happens

    def live(self) -> None:
        for _ in range(self.random.randint(2, 4)):
            self.disk.power_fails_after(self.random.choice([self.random.randint(0, 60), NEVER]))
            try:
                for _ in range(self.random.randint(1, 12)):
                    self._step()
            except PowerLoss:
                pass
            self._fall()
            self.check()

    def _step(self) -> None:
        steps = (
            *(self._append, self._append, self._append, self._append, self._conflict, self._vote, self._compact),
            *(self._copy, self._trim, self._stop),
        )
        self.random.choice(steps)()
        self.commit_index = self.random.randint(self.commit_index, self.last_index)

    def _entries(self, first: int, lsn: int, term: int) -> tuple[tuple[Entry, ...], list[Batch]]:
        """New entries, staged, and their batches."""
        entries: list[Entry] = []
        made: list[Batch] = []
        only_ranges = self.random.random() < 0.7
        for index in range(first, first + self.random.randint(1, 4)):
            kind = 1.0 if only_ranges else self.random.random()
            if kind < 0.2:
                entries.append(Entry(index, term, EntryKind.NOOP, b""))
            elif kind < 0.3:
                entries.append(Entry(index, term, EntryKind.PAYLOAD, encode_entry(TrimLog(0))))
            else:
                batches = [self._batch(lsn)]
                while self.random.random() < 0.4:
                    batches.append(self._batch(batches[-1].end_lsn))
                lsn = batches[-1].end_lsn
                entries.append(Entry(index, term, EntryKind.PAYLOAD, encode_entry(range_of(batches))))
                self.store.staging.put(index, term, batches)
                made += batches
        return tuple(entries), made

    def _batch(self, lsn: int) -> Batch:
        self.texts += 1
        text = b"%d" % self.texts * self.random.choice((1, 1, 1, 60))
        return batch_of(1, 1 + lsn, self.random.randint(1, 3), text=text).placed(lsn, SEED)

    def _append(self) -> None:
        hard_state = self.state.hard_state
        if self.random.random() < 0.2:
            hard_state = HardState(hard_state.term + 1, self.random.choice((None, 1)))
        entries, made = self._entries(self.last_index + 1, self.end_at(self.last_index), hard_state.term)
        after = DurableState(hard_state, self.state.snapshot, self.state.entries + entries)
        is_same = hard_state == self.state.hard_state
        effect = Persist(self._next(), None if is_same else hard_state, None, entries)
        self._persist(effect, after, self.batches + made, parts_of(after, entries) if is_same else ())

    def _conflict(self) -> None:
        """Another leader replaces what is not committed, or only has it dropped."""
        if self.last_index == self.commit_index:
            return
        self.cuts += 1
        first = self.random.randint(self.commit_index + 1, self.last_index)
        hard_state = HardState(self.state.hard_state.term + 1, 2)
        kept = tuple(entry for entry in self.state.entries if entry.index < first)
        lsn = self.end_at(first - 1)
        entries: tuple[Entry, ...] = ()
        made: list[Batch] = []
        cut_from = None
        if self.random.random() < 0.7:
            entries, made = self._entries(first, lsn, hard_state.term)
        else:
            cut_from = first
        after = DurableState(hard_state, self.state.snapshot, kept + entries)
        between = [DurableState(hard_state, self.state.snapshot, kept), *parts_of(after, entries)]
        effect = Persist(self._next(), hard_state, None, entries, cut_from)
        self._persist(effect, after, self._until(lsn) + made, between)

    def _vote(self) -> None:
        hard_state = HardState(self.state.hard_state.term + 1, self.random.choice((None, 1, 3)))
        after = DurableState(hard_state, self.state.snapshot, self.state.entries)
        self._persist(Persist(self._next(), hard_state), after, self.batches)

    def _compact(self) -> None:
        """At an applied entry; what was appended meanwhile, or replaced, is written along with it."""
        if self.commit_index <= self.state.snapshot.index:
            return
        index = self.random.randint(self.state.snapshot.index + 1, self.commit_index)
        term = next(entry.term for entry in self.state.entries if entry.index == index)
        snapshot = point(index, term, self.end_at(index))
        hard_state, kept, batches = self.state.hard_state, self.state.entries, self.batches
        between: list[DurableState] = []
        if self.random.random() < 0.4:
            first = self.random.randint(self.commit_index + 1, self.last_index + 1)
            hard_state = HardState(hard_state.term + 1, None)
            kept = tuple(entry for entry in kept if entry.index < first)
            between = [DurableState(self.state.hard_state, self.state.snapshot, kept)]
            lsn = self.end_at(first - 1)
            entries, made = self._entries(first, lsn, hard_state.term)
            kept, batches = kept + entries, self._until(lsn) + made
        behind = tuple(entry for entry in kept if entry.index > index)
        after = DurableState(hard_state, snapshot, behind)
        self._persist(Persist(self._next(), hard_state, snapshot, behind), after, batches, between)

    def _copy(self) -> None:
        """A leader's compaction point is ahead: drop what is not committed, copy, install."""
        self.copies += 1
        lsn = self.end_at(self.commit_index)
        kept = tuple(entry for entry in self.state.entries if entry.index <= self.commit_index)
        dropped = DurableState(self.state.hard_state, self.state.snapshot, kept)
        if kept != self.state.entries:
            self._persist(Persist(self._next(), cut_from=self.commit_index + 1), dropped, self._until(lsn))
        # What a leader has given up to its compaction point stays true, whoever leads next.
        is_begun = self.store.lane.length > self.store.end_lsn
        copied = self.copied if is_begun else list(self.batches)
        for _ in range(self.random.randint(1, 4)):
            chunk = [self._batch(copied[-1].end_lsn if copied else 0) for _ in range(self.random.randint(1, 3))]
            assert self.store.lane.length == chunk[0].base_lsn
            self.store.copy(chunk[0].base_lsn, chunk)
            self.store.copy(chunk[0].base_lsn, chunk)  # once more: void
            copied += chunk
            self.copied = copied
            if self.random.random() < 0.2:
                return  # the leader is gone: what was copied is in the way of whatever comes next
        hard_state = self.state.hard_state
        index = self.last_index + self.random.randint(1, 9)
        snapshot = point(index, hard_state.term + 1, copied[-1].end_lsn)
        hard_state = HardState(hard_state.term + 1, None)
        after = DurableState(hard_state, snapshot)
        self._persist(Persist(self._next(), hard_state, snapshot), after, copied)
        self.commit_index = index

    def _trim(self) -> None:
        self.store.trim(self.random.randint(0, self.end_at(self.commit_index)))

    def _stop(self) -> None:
        """Cleanly, or as far as there is space."""
        if self.random.random() < 0.3:
            self.disk.capacity_bytes = 0
        self.store.close(self.store.end_lsn)
        self.disk.capacity_bytes = None
        self._open()

    def _next(self) -> int:
        self.sequence += 1
        return self.sequence

    def _persist(
        self, effect: Persist, after: DurableState, batches: list[Batch], between: Sequence[DurableState] = ()
    ) -> None:
        self.possible = [(self.state, self.batches), (after, batches)]
        for state in between:
            self.possible.append((state, batches))
            self.possible.append((state, self.batches))
        if self.random.random() < 0.1:
            self.disk.capacity_bytes = self.random.randint(0, 6000)
        try:
            self.store.persist(effect)
        except StorageFull:
            self.full += 1
            self.disk.capacity_bytes = None
            self.store.persist(effect)
        self.disk.capacity_bytes = None
        self.state, self.batches = after, batches
        self.possible = [(after, batches)]

    # Ends and beginnings

    possible: list[tuple[DurableState, list[Batch]]]

    def _fall(self) -> None:
        self.crashes += 1
        self.disk.capacity_bytes = None
        power_lost = self._end()
        for _ in range(20):
            self.disk.power_fails_after(self.random.randint(0, 30) if self.random.random() < 0.5 else NEVER)
            try:
                self._open()
                break
            except PowerLoss:
                power_lost = self._end() or power_lost
        else:
            self.disk.power_fails_after(NEVER)
            self._open()
        self.disk.power_fails_after(NEVER)

    def _end(self) -> bool:
        if self.random.random() < 0.3:
            self.disk.kill()
            return False
        tear: Tear = self.random.choice(["sector", "byte"])
        self.disk.crash(self.random, tear=tear)
        return True

    def _open(self) -> None:
        if not hasattr(self, "possible"):
            self.possible = [(self.state, self.batches)]
        in_raft_log = len(verify(self.disk, DIRECTORY).state.entries)
        self.store, found = self.files.open(self.disk, DIRECTORY)
        self.restored += len(found.entries) - in_raft_log
        for state, batches in self.possible:
            if state == found:
                self.state, self.batches = state, batches
                end = self.end_at(self.last_index)
                self.batches = [batch for batch in batches if batch.end_lsn <= end]
                self.possible = [(self.state, self.batches)]
                self.commit_index = max(self.state.snapshot.index, min(self.commit_index, self.last_index))
                return
        raise AssertionError(f"found {found}, which is none of {[state for state, _ in self.possible]}")

    def check(self) -> None:
        """The lane ends with the last range, and holds the bytes of each."""
        store: SharedLog = self.store
        assert store.lane.length == store.end_lsn == self.end_at(self.last_index)
        assert store.last_index == self.last_index
        lane = store.lane
        at = lane.trim_lsn
        found: list[Batch] = []
        while at < lane.length:
            found += Cursor(lane, at).read(lane.length)
            at = found[-1].end_lsn
        expected = [batch for batch in self.batches if batch.end_lsn > lane.trim_lsn]
        assert [_bytes(batch) for batch in found] == [_bytes(batch) for batch in expected]
        for entry in self.state.entries:
            of = range_in(entry)
            if of is not None:
                of_range = store.batches_of(entry.index, entry.term, of)
                named = [b for b in self.batches if of.first_lsn <= b.base_lsn < of.end_lsn]
                assert len(of_range) == len(named)
                for batch, wanted in zip(of_range, named, strict=True):
                    assert batch.kind == NOOPS or _bytes(batch) == _bytes(wanted)
                    assert batch.kind != NOOPS or batch.end_lsn <= lane.trim_lsn


def parts_of(after: DurableState, entries: Sequence[Entry]) -> list[DurableState]:
    """What a crash may leave of ranges that are written together: those that are named first."""
    if any(range_in(entry) is None for entry in entries):
        return []
    before = after.entries[: len(after.entries) - len(entries)]
    return [msgspec.structs.replace(after, entries=(*before, *entries[:count])) for count in range(len(entries))]


def _bytes(batch: Batch) -> bytes:
    return b"".join(map(bytes, batch.buffers()))
