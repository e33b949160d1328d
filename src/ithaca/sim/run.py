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

from ithaca.model.errors import Corrupt
from ithaca.proof.checker import check
from ithaca.proof.dump import NoPayload, dump_replica
from ithaca.proof.history import Final, Plan
from ithaca.sim.clients.publishers import Publisher
from ithaca.sim.clients.session_churn import Guest, only_used_names_are_left
from ithaca.sim.clients.spark_drivers import Driver
from ithaca.sim.configuration import Configuration, configuration_of
from ithaca.sim.faults.drawing import Faults, is_complete
from ithaca.sim.paths import counted
from ithaca.sim.rules.images import check_images, has_new_replica
from ithaca.sim.scalog.aggregation import is_aggregated
from ithaca.sim.scalog.invariants import Invariants
from ithaca.sim.scalog.storage_trouble import are_waiting
from ithaca.sim.scalog.witness import watched
from ithaca.sim.scheduler import NS_PER_S
from ithaca.sim.violation import Violation
from ithaca.sim.world import World

EVENTS_MAX = 20_000
"""Of the troubled phase, and of each step of healing."""
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


def run_seed(seed: int, *, story: bool = False) -> Result:
    """Run one seed."""
    return run_configuration(configuration_of(seed), story=story)


def run_configuration(configuration: Configuration, *, story: bool = False) -> Result:
    """Run what was drawn, or chosen; `story` has the report written also when nothing was violated."""
    with _limits(configuration.limits), _no_collector():
        return _run(configuration, story)


def _run(configuration: Configuration, story: bool) -> Result:
    violation: Violation | None = None
    with World(configuration) as world, counted(world.count):
        invariants = Invariants(world)
        run = _Run(world, invariants)
        try:
            with watched(world, invariants):
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

    def __init__(self, world: World, invariants: Invariants) -> None:
        self._world = world
        self._invariants = invariants
        self._additions = Random(f"{world.configuration.seed} additions")

    def _check(self, name: str) -> None:
        before = self._world.view
        self._invariants.check(name)
        if self._world.view is not before and has_new_replica(before, self._world.view):
            check_images(self._world, self._additions)

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
        seconds = world.configuration.troubled_s
        world.run_until(lambda: False, within_s=seconds, events_max=EVENTS_MAX, check=self._check)
        world.tell("everything is mended")
        faults.heal()
        before = [producer.succeeded for producer in world.producers]
        self._converge(
            "appends go on",
            lambda: all(each.succeeded > old for each, old in zip(world.producers, before, strict=True)),
        )
        others: list[Publisher | Guest | Driver] = [*world.publishers, *world.guests, *world.drivers]
        done = [each.succeeded for each in others]
        self._converge(
            "publications and visits go on",
            lambda: all(each.succeeded > old for each, old in zip(others, done, strict=True)),
        )
        world.awaits_idle_names = bool(world.configuration.session_idle_s)
        world.is_loaded = False
        self._converge("nothing is left over", lambda: all(each.is_settled for each in world.producers))
        publishing = [each for each in others if not isinstance(each, Guest)]
        self._converge("no publication is left over", lambda: all(each.is_settled for each in publishing))
        self._converge("names that nobody uses expire", lambda: only_used_names_are_left(world))
        world.awaits_idle_names = False
        self._converge("no name is claimed", lambda: all(each.is_settled for each in world.claimants))
        self._converge("guests have left", lambda: all(each.is_settled for each in world.guests))
        self._converge("shards come and go as asked", lambda: world.administrator.is_done)
        self._converge("orderers are those that were asked for", world.members.are_as_wanted)
        self._converge("parts expire", lambda: world.times.short_parts == 0)
        self._converge("readers have everything", lambda: all(each.has_all for each in world.readers))
        # Of the view as it is by then: a replica may still be replaced while the others catch up.
        self._converge("replicas hold everything", lambda: all(is_complete(world, host) for host in world.replicas()))
        self._converge("aggregators are used", lambda: is_aggregated(world))
        self._converge("spares that nobody needs wait again", lambda: are_waiting(world))

    def _converge(self, wanted: str, done: Callable[[], bool]) -> None:
        most = EVENTS_MAX * 6  # signs of life alone are some thousand in a second
        if not self._world.run_until(done, within_s=_HEAL_S, events_max=most, check=self._check):
            raise Violation("healing", f"{_HEAL_S:g} s or {most} events are not enough after the mending: {wanted}")

    def judge(self) -> None:
        world = self._world
        self._invariants.check_fenced()
        for client in world.clients:
            world.leave(client)
        for host in world.hosts.values():
            host.must_restart = False
            world.stop(host)
        self._converge("servers stop", lambda: not any(host.is_up for host in world.hosts.values()))
        self._invariants.check_final_ends()
        finals = self._finals()
        members = [len(world.hosts_of(shard.shard)) for shard in world.view.shards]
        copies = min(members) - finals.count(None)
        events = [Plan(copies=copies, ok_min=1), *world.recorder.events, *filter(None, finals)]
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
                finals.append(dump_replica(host.disk, host.directory, host.name))
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
