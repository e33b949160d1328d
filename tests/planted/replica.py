"""Planted bugs of storage servers: what they report, acknowledge, accept, repeat, serve and repair."""

from ithaca.sim.scalog.storage_trouble import SLOW_POSITIONS
from tests.planted.bug import Bug

REPLICA = (
    Bug(
        "replica-reports-received",
        "a replica reports what it has received, and not what it has synced",
        "ithaca.engines.scalog.replica.reporting",
        "lengths = tuple((lane.lane, lane.durable) for lane in self._told)",
        "lengths = tuple((lane.lane, lane.received) for lane in self._told)",
    ),
    Bug(
        "replica-runs-not-synced",
        "positions are reported as durable before they are",
        "ithaca.engines.scalog.replica.reporting",
        "elif not self._unsynced and not self._is_syncing:",
        "else:",
        needs=lambda drawn: drawn.limits["RUNS_SYNC_CUTS"] > 1 and bool({"power", "lose-runs"} & {*drawn.faults}),
    ),
    Bug(
        "replica-reads-beyond-held",
        "a replica serves everything that is ordered, also what it does not hold",
        "ithaca.engines.scalog.replica.readable",
        "limit = min((copy.limit(self.first) for copy in self._behind.values()), default=self.tail)",
        "limit = self.tail",
        needs=lambda drawn: drawn.replicas > 1 and bool({"wipe", "failed-sync", "bereave"} & {*drawn.faults}),
    ),
    Bug(
        "replica-repeat-accepted",
        "a batch that was sent again is appended again",
        "ithaca.sessions.continuing",
        "if placed.first_seq == first_seq and placed.count == count:\n            return placed",
        "if placed.first_seq == first_seq and placed.count == count:\n            return None",
    ),
    Bug(
        "replica-epoch-ignored",
        "a handle that was fenced may go on appending",
        "ithaca.sessions.continuing",
        "if epoch < session.epoch:",
        "if epoch < 0:",
        needs=lambda drawn: drawn.takes_over,
    ),
    Bug(
        "replica-answer-by-lsn",
        "a batch from a former home is answered with whatever has its LSN in the present lane",
        "ithaca.engines.scalog.replica.sessions",
        "KnownBatch(batch[0], batch[1], -1, batch[2])",
        "KnownBatch(batch[0], batch[1], 0, batch[2])",
    ),
    Bug(
        "replica-unknown-is-absent",
        "a replica that lacks part of a closed lane says that what it lacks was never there",
        "ithaca.engines.scalog.replica.facts",
        "return copy.is_settled and not copy.has_holes",
        "return copy.is_present",
        needs=lambda drawn: "bereave" in drawn.faults,
    ),
    Bug(
        "replica-closed-lane-not-cut",
        "what a closed lane holds beyond its ordered length stays in it",
        "ithaca.engines.scalog.server.replica.disk",
        "await asyncio.to_thread(self._store.truncate, lane, length)",
        "await asyncio.to_thread(self._store.lanes[lane].lane.close)",
        needs=lambda drawn: bool({"kill", "power", "die-writing", "crash-loop"} & {*drawn.faults}),
    ),
    Bug(
        "replica-boot-again",
        "a replica starts with the boot that it had before, and so writes on in the same lane",
        "ithaca.engines.scalog.storage.replica_meta",
        "return _store(disk, directory, msgspec.structs.replace(known, boot=known.boot + 1))",
        "return _store(disk, directory, msgspec.structs.replace(known, boot=max(known.boot, 1)))",
    ),
    Bug(
        "replica-fetch-not-repeated",
        "a copy that was cut short is not taken up again",
        "ithaca.engines.scalog.server.replica.copies",
        """            moved = self._taker.received(wanted.lane) > start
""",
        """            if wanted.stop is not None:
                return
            moved = self._taker.received(wanted.lane) > start
""",
        needs=lambda drawn: "bereave" in drawn.faults,
    ),
    Bug(
        "replica-trims-by-lsn",
        "a trim takes positions for LSNs",
        "ithaca.engines.scalog.server.replica.disk",
        "lsn = min(held.runs.floor_position(first), held.lane.length)",
        "lsn = min(first, held.lane.length)",
        needs=lambda drawn: drawn.trims,
    ),
    Bug(
        "replica-runs-of-first-lane",
        "a cut with runs of several lanes has only the first one noted",
        "ithaca.engines.scalog.replica.positions",
        "self._effects.append(NoteRuns(tuple(runs), time_us))",
        "self._effects.append(NoteRuns(tuple(runs[:1]), time_us))",
    ),
    Bug(
        "replica-next-number-too-early",
        "a session's next number is told while batches before it are not ordered",
        "ithaca.engines.scalog.replica.appends",
        "if last in self._pending_at:",
        "if last in ():",
    ),
    Bug(
        "replica-waiter-not-woken",
        "whoever waits for the very position that a cut reaches is not woken",
        "ithaca.server.position_waits",
        "while heap and heap[0][0] < limit:",
        "while heap and heap[0][0] < limit - 1:",
    ),
    Bug(
        "replica-gap-accepted",
        "a session goes on with a number that does not follow",
        "ithaca.sessions.continuing",
        "if first_seq == session.next_seq:",
        "if first_seq >= session.next_seq:",
        needs=lambda drawn: drawn.pause_between_appends_s < 0.1,
    ),
    Bug(
        "replica-runs-not-counted",
        "nobody counts the runs that wait to be synced, so that there are more than the store takes",
        "ithaca.engines.scalog.replica.reporting",
        "copy.runs_unsynced += 1",
        "copy.runs_unsynced += 0",
        needs=lambda drawn: "RUNS_UNSYNCED_MAX" in drawn.limits,
    ),
    Bug(
        "replica-runs-counted-too-early",
        "a sync of runs counts for those, too, that were noted while it went on",
        "ithaca.engines.scalog.replica.reporting",
        "for copy in self._syncing.values():\n            copy.runs_syncing = 0",
        "for copy in (*self._syncing.values(), *self._counted.values()):\n"
        "            copy.runs_syncing = copy.runs_unsynced = 0",
        needs=lambda drawn: SLOW_POSITIONS in drawn.faults,
    ),
    Bug(
        "replica-runs-refused-are-known",
        "runs for which there is no room count as known, so that readers pass the records that they are of",
        "ithaca.engines.scalog.replica.positions",
        "self._runs.refuse(copy)",
        "copy.runs_end = copy.ordered",
        needs=lambda drawn: "RUNS_UNSYNCED_MAX" in drawn.limits,
    ),
    Bug(
        "replica-runs-not-taken-again",
        "a replica that had no room for runs does not ask for them when it has",
        "ithaca.engines.scalog.replica.core",
        "if self._runs.take_again() and self._is_joined:",
        "if not self._is_joined and self._runs.take_again():",
        needs=lambda drawn: "RUNS_UNSYNCED_MAX" in drawn.limits,
    ),
)
