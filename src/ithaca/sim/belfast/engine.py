"""Belfast, as the simulator needs it: scalog's world, without what this engine has not."""

from collections.abc import Mapping
from dataclasses import replace

from ithaca.engines.belfast.messages import LaneReportIs, LaneSynced
from ithaca.model.config.failures import NO_ACTION
from ithaca.model.engine import EngineName
from ithaca.sim.belfast.witness import BelfastWitness
from ithaca.sim.configuration import Configuration
from ithaca.sim.engine import SimulatedEngine, Simulation
from ithaca.sim.faults.replacing import REPLACE
from ithaca.sim.scalog import configuration
from ithaca.sim.scalog.engine import ScalogSimulation, SimulatedScalog
from ithaca.sim.scalog.paths import PATHS
from ithaca.sim.scalog.witness import ScalogWitness
from ithaca.sim.world import World


class SimulatedBelfast(SimulatedScalog):
    """See `SimulatedEngine`."""

    name: EngineName = "belfast"
    faults: tuple[str, ...] = tuple(kind for kind in SimulatedScalog.faults if kind != REPLACE)
    paths: Mapping[str, str] = PATHS
    repeatable: tuple[type, ...] = (*SimulatedScalog.repeatable, LaneReportIs, LaneSynced)

    def draw(self, shared: Configuration) -> Configuration:
        """Replicas are not replaced, and nobody stands between them and the leader."""
        drawn = configuration.draw(shared)
        faults = tuple(kind for kind in drawn.faults if kind in self.faults)
        focus = "everybody" if drawn.focus == "aggregators" else drawn.focus
        return replace(drawn, faults=faults, focus=focus, aggregators=(), failures=NO_ACTION, pool=0)

    def simulate(self, world: World) -> Simulation:
        return BelfastSimulation(world)


class BelfastSimulation(ScalogSimulation):
    """See `Simulation`."""

    def _make_witness(self, world: World) -> ScalogWitness:
        return BelfastWitness(world, self._invariants, self._times)


SIMULATED: SimulatedEngine = SimulatedBelfast()
