"""Planted bugs of many lanes: packs, lanes that are opened when they are needed, and lanes that vanish."""

from tests.planted.bug import Bug

LANES = (
    Bug(
        "pack-lacks-last-lane",
        "a pack is made without the last of the lanes that go into it",
        "ithaca.engines.scalog.storage.lane_store",
        "self._packs.add((held.lane_id, partial(_write_lane, held=held)) for held in chosen)",
        "self._packs.add((held.lane_id, partial(_write_lane, held=held)) for held in (chosen[:-1] or chosen))",
    ),
    Bug(
        "pack-not-synced",
        "the directories of lanes are removed before the pack that they are in is synced",
        "ithaca.engines.scalog.storage.pack",
        "        self._file.sync()\n        self._disk.rename",
        "        self._disk.rename",
        needs=lambda drawn: drawn.limits["PACK_LANES_MIN"] == 1 and bool({"power", "blackout"} & {*drawn.faults}),
    ),
    Bug(
        "pack-name-not-synced",
        "the directories of lanes are removed before the name of their pack is durable",
        "ithaca.engines.scalog.storage.pack",
        "self._disk.rename(self._path + NEW_SUFFIX, self._path)\n        self._disk.sync_directory(self._directory)",
        "self._disk.rename(self._path + NEW_SUFFIX, self._path)",
        needs=lambda drawn: bool({"power", "blackout"} & {*drawn.faults}),
    ),
    Bug(
        "pack-says-longer",
        "the directory of a pack says that a lane is longer than it is",
        "ithaca.engines.scalog.storage.packing",
        "        length=lane.length,",
        "        length=lane.length + 1,",
    ),
    Bug(
        "pack-too-early",
        "a lane goes into a pack when it is complete, although its positions are still to come",
        "ithaca.engines.scalog.replica.lanes",
        "if not (self.is_closed and self.is_ready and self.runs_due <= self.runs_end <= self.ordered):",
        "if not (self.is_closed and self.is_ready):",
        needs=lambda drawn: drawn.limits["PACK_LANES_MIN"] == 1,
    ),
    Bug(
        "pack-merged-in-part",
        "when packs are merged, the lanes of the last one are left out",
        "ithaca.engines.scalog.storage.packs",
        '(int(entry["key"]), number, at) for number in chosen for at, entry in enumerate(self._packs[number])',
        '(int(entry["key"]), number, at)\n'
        "            for number in (chosen[:-1] or chosen)\n"
        "            for at, entry in enumerate(self._packs[number])",
    ),
    Bug(
        "positions-off-by-one",
        "a read does not look into the lane that begins at its position",
        "ithaca.engines.scalog.storage.settled",
        'stop = int(np.searchsorted(self._starts, position, "right"))',
        'stop = int(np.searchsorted(self._starts, position, "left"))',
        needs=lambda drawn: drawn.limits["PACK_LANES_MIN"] == 1,
    ),
    Bug(
        "stream-misses-lane",
        "a stream does not take in a lane in a pack that begins right behind another",
        "ithaca.engines.scalog.storage.shard_reader",
        "self._look_ahead(self._next_start)",
        "self._look_ahead(self._next_start + 1)",
        needs=lambda drawn: drawn.limits["PACK_LANES_MIN"] == 1,
    ),
    Bug(
        "empty-lane-of-a-session-vanishes",
        "a lane that closed empty is forgotten although a session is at home there",
        "ithaca.engines.scalog.ordering.state",
        "gone = self.lanes.drop(empty - self.sessions.homes()) if empty else []",
        "gone = self.lanes.drop(empty) if empty else []",
    ),
    Bug(
        "lane-closed-while-written",
        "a lane that is being written is closed for another one, and opened once more",
        "ithaca.engines.scalog.storage.held_lane",
        "            if self.is_written:\n                return False",
        "            if self._runs is not None and not self._runs.is_synced:\n                return False",
        needs=lambda drawn: drawn.limits["LANES_OPEN_MAX"] == 1,
    ),
)
