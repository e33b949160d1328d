"""One seed from its configuration to its verdict: trouble, then healing, then rest, then the judge.

While there is trouble only safety is asked for. Once everything is mended the cluster must come back by itself:
every client gets on, every replica holds everything. Then all servers are stopped, what their disks hold is
written into the history, and the checker judges it (docs/proof.md).
"""

import gc
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random

from ithaca.engines import registry
from ithaca.model.engine import DEFAULT_ENGINE, EngineName, Feature
from ithaca.model.errors import Corrupt
from ithaca.proof.checker import check
from ithaca.proof.dump import NoPayload
from ithaca.proof.history import Final, Plan
from ithaca.sim.configuration import Configuration, configuration_of
from ithaca.sim.engine import simulated
from ithaca.sim.faults.drawing import Faults
from ithaca.sim.paths import counted
from ithaca.sim.rules.images import check_images, has_new_replica
from ithaca.sim.rules.raft import RaftRules
from ithaca.sim.rules.servers import ServerRules
from ithaca.sim.rules.witness import Witness
from ithaca.sim.scheduler import NS_PER_S
from ithaca.sim.violation import Violation
from ithaca.sim.world import World

EVENTS_MAX = 20_000
"""Of each step of healing, a twelfth."""
_HEAL_S = 180.0
_IMAGES = 4
"""How often a power loss everywhere is looked at in copies of the disks."""


@dataclass(frozen=True)
class Result:
    """What became of a seed. Equal seeds give equal results, whatever the machine."""

    seed: int
    trace: str
    events: int
    virtual_s: float
    acknowledged: int
    counts: dict[str, int]
    violation: str | None = None
    rule: str | None = None
    report: str = ""
    """For people: the configuration and the story, when something was violated or it was asked for."""


def run_seed(seed: int, engine: EngineName = DEFAULT_ENGINE, *, story: bool = False) -> Result:
    """Run one seed."""
    return run_configuration(configuration_of(seed, engine), story=story)


def run_configuration(configuration: Configuration, *, story: bool = False) -> Result:
    """Run what was drawn, or chosen; `story` has the report written also when nothing was violated."""
    simulated(configuration.engine)  # limits are put into the modules that are there
    with _limits(configuration.limits), _no_collector():
        return _run(configuration, story)


def _run(configuration: Configuration, story: bool) -> Result:
    violation: Violation | None = None
    with World(configuration) as world, counted(simulated(configuration.engine).paths, world.count):
        run = _Run(world)
        try:
            with run.watched():
                run.trouble_and_heal()
                run.judge()
        except Violation as found:
            violation = found
        return Result(
            seed=configuration.seed,
            trace=world.trace(),
            events=world.scheduler.count,
            virtual_s=world.scheduler.now_ns / 1e9,
            acknowledged=world.recorder.acknowledged,
            counts=dict(sorted(world.counts.items())),
            violation=None if violation is None else str(violation),
            rule=None if violation is None else violation.rule,
            report=_report(world, violation) if story or violation is not None else "",
        )


class _Run:
    """The phases of one run."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._servers = ServerRules(world)
        self._raft = RaftRules()
        self._additions = Random(f"{world.configuration.seed} additions")

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Have witnesses while this lasts."""
        with Witness(self._world, self._raft).watched(), self._world.simulation.watched():
            yield

    def _check(self, name: str) -> None:
        """Something has happened to this process: look at the server that it is."""
        world = self._world
        host, before = world.hosts.get(name), world.view
        if host is None or not host.is_up:
            return
        self._servers.check(host)
        if (raft := world.simulation.raft_of(host)) is not None:
            self._raft.check(host, raft)
        world.simulation.check(host)
        if world.recorder.unseen:
            self._look_at_trims()
        if world.view is not before and has_new_replica(before, world.view):
            check_images(world, self._additions)

    def _look_at_trims(self) -> None:
        """Once all replicas know of a trim, nobody is given any more what it took."""
        world = self._world
        replicas = [*world.replicas(), *world.simulation.former()]
        if all(host.is_up for host in replicas):
            for trim in list(world.recorder.unseen):
                if all(world.simulation.knows_trim(host, trim.before) for host in replicas):
                    world.recorder.trim_seen(trim)

    def trouble_and_heal(self) -> None:
        world = self._world
        for host in [*world.hosts.values(), *world.clients]:
            world.start(host)
        faults = Faults(world)
        faults.begin()
        images = Random(f"{world.configuration.seed} images")
        for _ in range(_IMAGES):
            at_s = images.uniform(0, world.configuration.troubled_s)
            world.scheduler.plan(int(at_s * NS_PER_S), None, lambda: check_images(world, images))
        seconds, most = world.configuration.troubled_s, world.configuration.troubled_events_max
        world.run_until(lambda: False, within_s=seconds, events_max=most, check=self._check)
        world.tell("everything is mended")
        faults.heal()
        before = [producer.succeeded for producer in world.producers]
        self._converge(
            "appends go on",
            lambda: all(each.succeeded > old for each, old in zip(world.producers, before, strict=True)),
        )
        others = world.simulation.counting()
        done = [each.succeeded for each in others]
        self._converge(
            "other clients get on",
            lambda: all(each.succeeded > old for each, old in zip(others, done, strict=True)),
        )
        world.awaits_idle_names = bool(world.configuration.session_idle_s)
        world.is_loaded = False
        self._converge("nothing is left over", lambda: all(each.is_settled for each in world.producers))
        for wanted, is_so in world.simulation.clients_end():
            self._converge(wanted, is_so)
        self._converge("shards come and go as asked", lambda: world.administrator.is_done)
        self._converge("orderers are those that were asked for", world.members.are_as_wanted)
        self._converge("readers have everything", lambda: all(each.has_all for each in world.readers))
        self._converge("consumers have everything", lambda: all(each.has_all for each in world.consumers))
        self._converge("groups have everything", lambda: all(each.has_all for each in world.grouped))
        for wanted, is_so in world.simulation.converge():
            self._converge(wanted, is_so)

    def _converge(self, wanted: str, done: Callable[[], bool]) -> None:
        most = EVENTS_MAX * 12  # signs of life and readers are some thousand in a second
        if not self._world.run_until(done, within_s=_HEAL_S, events_max=most, check=self._check):
            raise Violation("healing", f"{_HEAL_S:g} s or {most} events are not enough after the mending: {wanted}")

    def judge(self) -> None:
        world = self._world
        self._servers.check_fenced()
        for client in world.clients:
            world.leave(client)
        for host in world.hosts.values():
            host.must_restart = False
            world.stop(host)
        self._converge("servers stop", lambda: not any(host.is_up for host in world.hosts.values()))
        world.simulation.check_end()
        finals = self._finals()
        copies = world.simulation.copies_end() - finals.count(None)
        is_dense = Feature.DENSE in registry.engine(world.configuration.engine).features
        plan = Plan(copies=copies, ok_min=1, dense=is_dense)
        events = [plan, *world.recorder.events, *filter(None, finals)]
        verdict = check(events)
        if verdict.violations:
            first = verdict.violations[0]
            raise Violation(first.rule, f"{first.text} (and {len(verdict.violations) - 1} more)")
        if verdict.no_verdict is not None:
            raise Violation("no-verdict", verdict.no_verdict)

    def _finals(self) -> list[Final | None]:
        """What each replica holds; None where a flipped bit lies in what nobody has read since."""
        finals: list[Final | None] = []
        for host in self._world.replicas():
            try:
                finals.append(self._world.simulation.dump(host))
            except NoPayload as error:
                raise Violation("sound-disks", f"{host.name} takes damage for a record: {error}") from error
            except Corrupt as error:
                if not host.was_flipped:
                    raise Violation("sound-disks", f"{host.name} holds damage that nobody did: {error}") from error
                self._world.count("damage still unread")
                finals.append(None)
        return finals


def _report(world: World, violation: Violation | None) -> str:
    cause = None if violation is None else violation.__cause__
    lines = [f"seed {world.configuration.seed}", world.configuration.text(), "story:", *world.story]
    if cause is not None:
        lines += traceback.format_exception(cause)
    return "\n".join(lines)


@contextmanager
def _limits(limits: dict[str, int]) -> Iterator[None]:
    """Put other limits in place in every module that uses them."""
    changed = []
    for name, module in sorted(sys.modules.items()):
        if name.startswith("ithaca.") and not name.startswith("ithaca.sim"):
            for limit, value in limits.items():
                if hasattr(module, limit):
                    changed.append((module, limit, getattr(module, limit)))
                    setattr(module, limit, value)
    try:
        yield
    finally:
        for module, limit, value in changed:
            setattr(module, limit, value)


@contextmanager
def _no_collector() -> Iterator[None]:
    """When the collector runs depends on what ran before: while a seed runs, only counted references go.

    Coroutines of processes that are no more end afterwards, and nobody hears what they say then. What was there before
    is left alone: it is most of what there is.
    """
    was_enabled, hook = gc.isenabled(), sys.unraisablehook
    gc.disable()
    gc.freeze()
    sys.unraisablehook = lambda _: None
    try:
        yield
    finally:
        while gc.collect():  # finalizers let go of more
            pass
        gc.unfreeze()
        sys.unraisablehook = hook
        if was_enabled:
            gc.enable()
