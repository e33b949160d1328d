"""One replica of two stands still, again and again, in a cluster that is well otherwise and has another shard.

What is asked for then is more than safety: every append succeeds, and none takes long. So nothing else happens in these
seeds. They are drawn apart from the rest, so that the others stay what they were.
"""

from bisect import bisect_left
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from ithaca.model.config.failures import NO_ACTION
from ithaca.proof.history import Append
from ithaca.sim.scalog.hosts import newest_state
from ithaca.sim.scheduler import NS_PER_S
from ithaca.sim.violation import Violation

if TYPE_CHECKING:
    from ithaca.sim.configuration import Configuration
    from ithaca.sim.engine import Inject
    from ithaca.sim.world import World

ONE_SILENT = "one-silent"
SILENT_FAULTS = (ONE_SILENT,)
MINUTE_S = 60.0
MINUTE_EVENTS_MAX = 400_000
"""How long the first pause is in every twelfth of these seeds, which takes more events than any other does."""
APPEND_S_MAX = 5.0
"""How long an append may take: until the silence is noticed, and its session has moved."""


def has_minute(seed: int) -> bool:
    """Whether a replica is silent for a minute; drawn apart, so that other seeds stay what they were.

    >>> [seed for seed in range(1, 41) if has_minute(seed)]
    [12, 18]
    """
    return Random(f"silent for a minute in {seed}").random() < 1 / 12


def with_one_silent(drawn: "Configuration") -> "Configuration":
    """In every twelfth seed this is all that happens."""
    random = Random(f"one silent of {drawn.seed}")
    if random.random() >= 1 / 12:
        return drawn
    longer_s = MINUTE_S if has_minute(drawn.seed) else 0.0
    room = ("ORDERING_STATE_BYTES_MAX", "ORDERING_STATE_RESERVE_BYTES", "RAFT_SNAPSHOT_BYTES_MAX")
    return replace(
        drawn,
        faults=SILENT_FAULTS,
        fault_every_s=1,
        troubled_s=random.uniform(20, 40) + longer_s,
        troubled_events_max=MINUTE_EVENTS_MAX if longer_s else drawn.troubled_events_max,
        shards=random.choice((2, 2, 3)),
        replicas=2,
        masking=False,
        failures=NO_ACTION,
        aggregators=(),
        spares=0,
        pool=0,
        spare_orderers=0,
        publishers=0,
        claimants=0,
        session_churners=0,
        drivers=0,
        flood=0,
        producers=random.randint(2, 3),
        readers=1,
        takes_over=False,
        pause_between_appends_s=0.4,
        straggler=0,
        mischief=0,
        retention_age_s=0,
        session_idle_s=0,
        limits={name: value for name, value in drawn.limits.items() if name not in room},
    )


class OneSilent:
    """The fault, and what must hold where it is the only one."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._random = Random(f"{world.configuration.seed} one silent")
        self._is_silent = False
        self._silences_ns: list[int] = []
        """When each began."""
        self.kinds: dict[str, Inject] = {ONE_SILENT: self._pause}

    def _pause(self) -> str | None:
        """A replica of a shard, once every replica has a lane; for less than it takes to notice, or for much longer.

        Nobody counts how long it was: a lane that was closed stays closed, whenever its replica is heard of again.
        Only connections end meanwhile, which is what a minute is for."""
        world, state = self._world, newest_state(self._world)
        lanes, replicas = [] if state is None else state.view.live_lanes(), world.replicas()
        if self._is_silent or not lanes or len(lanes) < len(replicas):
            return None
        host = self._random.choice(replicas)
        process = host.process
        if not host.is_up or process is None:
            return None
        is_first = not self._silences_ns
        self._is_silent = process.is_paused = True
        self._silences_ns.append(world.scheduler.now_ns)

        def resume() -> None:
            self._is_silent = False
            if process.is_paused:
                world.scheduler.resume(process)

        pause_s = self._random.choice((self._random.uniform(0.5, 4), self._random.uniform(6, 15)))
        if is_first and has_minute(world.configuration.seed):
            pause_s = MINUTE_S
        world.scheduler.plan(int(pause_s * NS_PER_S), None, resume)
        return f"{host.name} for {pause_s:.1f} s"

    def have_lanes(self) -> bool:
        """Whether every replica writes again."""
        state = newest_state(self._world)
        assert state is not None
        if self._world.configuration.faults != SILENT_FAULTS:
            return True
        return len(state.view.live_lanes()) == len(self._world.replicas())

    def check_end(self) -> None:
        """Whether every append has succeeded in time, since the first pause.

        A silence may follow one that was too short to be noticed, with a moment between them in which not every append
        that waits is tried again. So its time counts from the last silence that began meanwhile.
        """
        if self._world.configuration.faults != SILENT_FAULTS or not self._silences_ns:
            return
        recorder = self._world.recorder
        for each in recorder.events:
            if (
                isinstance(each, Append)
                and each.inv >= self._silences_ns[0]
                and each.id[0] not in recorder.out_sessions
            ):
                since_ns = max(each.inv, self._silences_ns[bisect_left(self._silences_ns, each.ret) - 1])
                took_s = (each.ret - since_ns) / NS_PER_S
                if each.st != "ok" or took_s > APPEND_S_MAX:
                    raise Violation("availability", f"append {each.id} took {took_s:.2f} s, and was {each.st}")
