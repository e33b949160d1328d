"""What befalls a replica at the very moment at which it hurts: damage to what was just synced, and a death between a
write and its sync. In some seeds also an end of a shard that its replicas do not hear of (`sim.faults.shards`).

Drawn apart from the rest of a configuration, so that the other seeds stay what they were.
"""

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from ithaca.model.errors import Corrupt
from ithaca.sim.faults.shards import FINALIZE_UNHEARD
from ithaca.sim.faults.targets import Targets
from ithaca.wire.batch import MARK, parse

if TYPE_CHECKING:
    from ithaca.sim.configuration import Configuration
    from ithaca.sim.disk import SimDisk
    from ithaca.sim.engine import Inject
    from ithaca.sim.world import World

FLIP_TAIL = "flip-tail"
DIE_UNSYNCED = "die-unsynced"
MOMENT_FAULTS = (FLIP_TAIL, DIE_UNSYNCED)
_CHANCE = 0.2
_SYNCS_MAX = 4


def with_bad_moments(configuration: "Configuration") -> "Configuration":
    """The same, or with some of these; then lanes are told of in pieces, to replicas that join and by learners."""
    random = Random(f"moments of {configuration.seed}")
    if not configuration.faults or random.random() >= _CHANCE:
        return configuration
    kinds: list[str] = []
    if configuration.replicas > 1:
        kinds.append(DIE_UNSYNCED)
        if configuration.failures.action != "replace":  # as `sim.faults.replacing` says
            kinds.append(FLIP_TAIL)
    if configuration.shards > 1:
        kinds.append(FINALIZE_UNHEARD)
    few = {"JOINED_LANES_MAX": random.choice((1, 3)), "REPORT_LANES_MAX": random.choice((2, 5))}
    return replace(configuration, limits=configuration.limits | few).with_some(random, kinds)


class BadMoments:
    """The faults, by name."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._random = Random(f"{world.configuration.seed} bad moments")
        self._targets = Targets(world)
        self.kinds: dict[str, Inject] = {FLIP_TAIL: self._flip_tail, DIE_UNSYNCED: self._die_unsynced}

    def _flip_tail(self) -> str | None:
        """A replica loses its power, and with it what it noted of its last syncs; then a bit changes in what it had
        synced last but one. Only the mark behind that tells the damage from a torn write.
        """
        host = self._targets.expendable()
        if host is None:
            return None
        self._world.lose_power(host)
        places = [(path, marks) for path, marks in _marked(host.disk) if len(marks) > 1]
        if not places:
            return None
        path, marks = self._random.choice(places)
        offset = self._random.randrange(marks[-2], marks[-1])
        host.flip_bit(path, offset, self._random.randrange(8), has_mark_behind=True)
        host.is_broken = True
        return f"{host.name} {path} at {offset}"

    def _die_unsynced(self) -> str | None:
        """A replica dies when it has written to a lane, and not synced that."""
        running = [host for host in self._world.replicas() if host.is_up]
        if not running:
            return None
        host = self._random.choice(running)
        host.disk.dies_unsynced = self._random.randrange(_SYNCS_MAX)
        return host.name


def _marked(disk: "SimDisk") -> "list[tuple[str, list[int]]]":
    """The last segments of all lanes on a disk, each with the offsets of its marks."""
    last: dict[str, str] = {}
    for path in disk.files():
        directory, _, name = path.rpartition("/")
        if "/lanes/" in path and name.endswith(".seg"):
            last[directory] = max(path, last.get(directory, path))
    return [(path, _marks(disk, path)) for path in sorted(last.values())]


def _marks(disk: "SimDisk", path: str) -> list[int]:
    data = memoryview(disk.content(path))
    marks: list[int] = []
    offset, lsn = 0, None
    try:
        while True:
            entry = parse(data, offset)
            if lsn is not None and entry.base_lsn != lsn:  # left over of what this file held before
                return marks
            lsn = entry.end_lsn
            if entry.kind == MARK:
                marks.append(offset)
            offset += entry.total_bytes
    except Corrupt:
        return marks
