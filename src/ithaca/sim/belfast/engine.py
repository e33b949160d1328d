"""Belfast, as the simulator needs it: scalog's world, without what this engine has not."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random

from ithaca.model.config.slots import SlotMode, SlotQuotas, SlotSettings
from ithaca.model.engine import EngineName
from ithaca.model.limits import KIB, MIB
from ithaca.sim.belfast.lost_lanes import LOST_LANE_FAULTS, LostLanes, with_lost_lanes
from ithaca.sim.belfast.paths import PATHS
from ithaca.sim.belfast.speculators import Speculating, speculators_of
from ithaca.sim.belfast.witness import BelfastWitness
from ithaca.sim.configuration import Configuration
from ithaca.sim.engine import Client, Condition, Inject, SimulatedEngine, Simulation
from ithaca.sim.scalog import configuration
from ithaca.sim.scalog.engine import ScalogSimulation, SimulatedScalog
from ithaca.sim.scalog.one_silent import SILENT_FAULTS
from ithaca.sim.scalog.storage_trouble import ASK_IN_VAIN, SLOW_POSITIONS
from ithaca.sim.scalog.used_up_descriptors import DESCRIPTOR_FAULTS
from ithaca.sim.scalog.witness import ScalogWitness
from ithaca.sim.world import World

_OF_SCALOG = (*SILENT_FAULTS, *DESCRIPTOR_FAULTS, SLOW_POSITIONS, ASK_IN_VAIN)


class SimulatedBelfast(SimulatedScalog):
    """See `SimulatedEngine`."""

    name: EngineName = "belfast"
    # A shard has one lane, at its primary, and none goes to another shard: a silent replica is no matter of lanes.
    faults: tuple[str, ...] = (
        *(kind for kind in SimulatedScalog.faults if kind not in _OF_SCALOG),
        *LOST_LANE_FAULTS,
    )
    paths: Mapping[str, str] = PATHS

    def draw(self, shared: Configuration) -> Configuration:
        """Nobody stands between replicas and the leader. Two of three seeds have shards that
        mask, whose lanes are taken over; some have windows so small that they end all the time."""
        random = Random(f"slots of {shared.seed}")
        if random.random() < 2 / 3:
            shared = replace(shared, replicas=3, masking=True)
        drawn = configuration.draw(shared)
        mode: SlotMode = random.choice(("fixed", "fixed", "fixed", "fixed", "auto", "free"))
        quotas: SlotQuotas = random.choice(("wide", "wide", "wide", "rate"))
        # While somebody speculates cuts pass by the clock, and small windows would be most of what happens.
        rounds = (50, 100) if speculators_of(shared.seed) else (2, 5, 100)
        limits = {"WINDOW_ROUNDS": random.choice(rounds), "QUOTA_SLOTS": random.choice((4, 64, 4096, 4096))}
        # A shard that is held back holds up all others here, so it must say in time that its runs are synced.
        unsynced = max(drawn.limits["ORDERING_CUTS_UNSYNCED_MAX"], drawn.limits["RUNS_SYNC_CUTS"])
        limits |= {"ORDERING_CUTS_UNSYNCED_MAX": unsynced, "SPECULATED_BYTES_MAX": _kept_for_speculators(shared.seed)}
        drawn = replace(drawn, slots=SlotSettings(mode, quotas), limits=drawn.limits | limits)
        faults = tuple(kind for kind in drawn.faults if kind in self.faults)
        focus = "everybody" if drawn.focus == "aggregators" else drawn.focus
        return with_lost_lanes(replace(drawn, faults=faults, focus=focus, aggregators=()))

    def simulate(self, world: World) -> Simulation:
        return BelfastSimulation(world)


def _kept_for_speculators(seed: int) -> int:
    """Where a primary keeps little, speculators that come late must read what is ordered."""
    return Random(f"kept for speculators of {seed}").choice((2 * KIB, 8 * MIB))


class BelfastSimulation(ScalogSimulation):
    """See `Simulation`."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._lost_lanes = LostLanes(world)
        self._speculators = [Speculating(world, number) for number in range(speculators_of(world.configuration.seed))]

    def clients(self) -> Sequence[Client]:
        return [*super().clients(), *self._speculators]

    def faults(self) -> Mapping[str, Inject]:
        return {**super().faults(), **self._lost_lanes.kinds}

    def clients_end(self) -> Iterator[Condition]:
        yield "speculators are told everything", lambda: all(each.has_all for each in self._speculators)
        yield from super().clients_end()

    def converge(self) -> Iterator[Condition]:
        yield from super().converge()
        yield "an idle order is silent", self._slot_witness.silence.has_come

    def _make_witness(self, world: World) -> ScalogWitness:
        self._slot_witness = BelfastWitness(world, self._invariants, self._times)
        return self._slot_witness


SIMULATED: SimulatedEngine = SimulatedBelfast()
