"""A seeded life of a lane: groups, rolls, trims, and a power cut or a kill at any operation, recovery included."""

from collections.abc import Sequence
from random import Random
from typing import Literal

from tests.storage.lanes import (
    NaiveLane,
    Source,
    Written,
    check_reads,
    make_lane,
    open_lane,
    session_table,
    write,
)

from ithaca.model.records import Durability
from ithaca.sim.disk import PowerLoss, SimDisk, Tear
from ithaca.storage.lane import Lane

NEVER = 1 << 60
Flavour = Literal["mixed", "records", "bookkeeping", "trimming"]
_WEIGHTS: dict[Flavour, tuple[int, int, int, int]] = {  # records, session's records, openings, trims
    "mixed": (6, 3, 2, 2),
    "records": (8, 1, 0, 0),
    "bookkeeping": (1, 0, 9, 3),
    "trimming": (6, 0, 1, 5),
}


class CrashingLane:
    """Writes entries and remembers which of them must survive what.

    `written` is everything given to the lane, in order. Of it, the first `durable` entries survive a power
    loss, the first `visible` (`commit` returned) survive a kill; of the rest any prefix may.
    """

    def __init__(self, seed: int, durability: Durability) -> None:
        self.random = Random(seed)
        self.source = Source(self.random)
        self.durability: Durability = durability
        self.disk = SimDisk()
        self.written: list[Written] = []
        self.durable = self.visible = 0
        self.crashes = self.recycled = 0
        make_lane(self.disk)
        self.lane = self._open()

    def live(self, flavours: Sequence[Flavour] = ("mixed", "mixed", "records", "bookkeeping", "trimming")) -> None:
        """Several lives, each cut short."""
        for _ in range(self.random.randint(2, 5)):
            flavour = self.random.choice(flavours)
            self.disk.power_fails_after(self.random.choice([self.random.randint(0, 80), NEVER]))
            try:
                for _ in range(self.random.randint(1, 25)):
                    self._step(flavour)
                if self.random.random() < 0.2:
                    self.lane.close()
                    self.durable = len(self.written)
            except PowerLoss:
                pass
            self._recover(self._fall())
            self._check()

    def _step(self, flavour: Flavour) -> None:
        choose = self.random.choices(range(4), _WEIGHTS[flavour], k=self.random.randint(1, 3))
        entries: list[Written] = []
        if 1 in choose:  # one look at the session table per group, as in group commit
            entries += self.source.session_records(self.lane)
        elif 2 in choose:
            entries += self.source.opening(self.lane)
        if 3 in choose:
            entries.append(self.source.trim(self.lane))
        entries += [self.source.records() for _ in range(choose.count(0))]
        if not entries:
            return
        active = self.lane.first_lsns[-1]
        spare = self._spare()
        group = self.lane.prepare([entry.batch for entry in entries])
        if self.lane.first_lsns[-1] != active:  # a sealed segment is synced, whatever the durability
            self.durable = len(self.written)
        self.recycled += self._spare() < spare
        self.written += entries
        self.lane.commit(group)
        self.visible = len(self.written)
        if self.durability == "fsync":
            self.durable = self.visible
        if self.random.random() < 0.7:
            self.lane.drop_trimmed()

    def _spare(self) -> int:
        return sum(name.startswith("recycled-") for name in self.disk.list("/lane"))

    def _fall(self) -> bool:
        """End the process, or lose power; whether power was lost."""
        self.crashes += 1
        if self.random.random() < 0.3:
            self.disk.kill()
            return False
        tear: Tear = self.random.choice(["sector", "byte"])
        self.disk.crash(self.random, tear=tear)
        return True

    def _recover(self, power_lost: bool) -> None:
        """Open the lane; it may fall again while it does."""
        for _ in range(20):
            chance = self.random.random()
            self.disk.power_fails_after(self.random.randint(0, 14) if chance < 0.5 else NEVER)
            try:
                self.lane = self._open()
                break
            except PowerLoss:
                power_lost |= self._fall()
        else:
            self.disk.power_fails_after(NEVER)
            self.lane = self._open()
        self.disk.power_fails_after(NEVER)
        self._settle(self.durable if power_lost else self.visible)

    def _settle(self, least: int) -> None:
        """Find the prefix of what was written that the lane holds: it must be at least `least` entries."""
        model = NaiveLane(self.written[:least])
        for count in range(least, len(self.written) + 1):
            if count > least:
                model.apply(self.written[count - 1])
            same_records = (len(model.rows), model.trim) == (self.lane.length, self.lane.trim_lsn)
            if same_records and model.session_table() == session_table(self.lane):
                self.written = self.written[:count]
                self.durable = self.visible = count  # found and reported: from now on it stays
                return
        raise AssertionError(
            f"the lane holds {self.lane.length} records, trimmed to {self.lane.trim_lsn}, sessions "
            f"{session_table(self.lane)}: no prefix of {least}..{len(self.written)} written entries"
        )

    def _check(self) -> None:
        check_reads(self.lane, NaiveLane(self.written), self.random)

    def _open(self) -> Lane:
        return open_lane(self.disk, durability=self.durability)


def live_once(seed: int, durability: Durability) -> CrashingLane:
    """One seed; an `AssertionError` or any exception is a finding."""
    life = CrashingLane(seed, durability)
    life.live()
    write(life.lane, [life.source.records()])
    return life
