"""Planted bugs of the engine `raft` that take a crash at one operation of a store's disk.

The life of a store finds them (`tests.engines.raft.storage.test_planted_names`), not seeds: so they are not in the
catalogue.
"""

from tests.planted.bug import Bug

RAFT_NAMES = (
    Bug(
        "log-vote-with-names",
        "a term or a vote that is to be written with ranges is forgotten over their names",
        "ithaca.engines.raft.storage.shared_log",
        "        if entries and hard_state is None and self._may_name(entries):",
        "        if entries and self._may_name(entries):",
        engine="raft",
    ),
    Bug(
        "log-trim-takes-names",
        "a trim drops names of ranges that the Raft log does not have yet",
        "ithaca.engines.raft.storage.shared_log",
        "        if self.lane.trim_lsn < lsn <= self.lane.length:\n            self._write_named()\n",
        "        if self.lane.trim_lsn < lsn <= self.lane.length:\n",
        engine="raft",
    ),
    Bug(
        "log-name-alone",
        "a name ends a group, and the batches behind it begin another segment",
        "ithaca.engines.raft.storage.shared_log",
        "            if group and group[-1].count and size",
        "            if group and size",
        engine="raft",
    ),
    Bug(
        "log-name-outlives-cut",
        "names count whatever was written to the Raft log since",
        "ithaca.engines.raft.storage.names",
        "            if Place(said.generation, said.offset) == place:",
        "            if Place(said.generation, said.offset) <= place:",
        engine="raft",
    ),
)
