"""Seeds that send whole clusters through bad days: nothing is violated, and a seed is the same run every time."""

import subprocess
import sys
from collections import Counter

import pytest

from ithaca.engines import registry
from ithaca.model.engine import DEFAULT_ENGINE, EngineName
from ithaca.sim.campaign import Coverage
from ithaca.sim.configuration import configuration_of
from ithaca.sim.engine import simulated
from ithaca.sim.run import Result, run_seed
from ithaca.sim.scalog.one_silent import MINUTE_S, SILENT_FAULTS

SEEDS = {"scalog": 35, "belfast": 10, "raft": 10, "corfu": 10}
"""How many a run of the tests has of each engine."""
CAMPAIGN_SEEDS = 2000
DRAWN = range(1, 101)
FOUND = {
    94: "parts that consumers leave when they are killed live for an hour, and took all places where there are few",
    380: "whoever damages disks opened files of one that had no descriptors left",
    385: "a connection that was aborted behind a cut link was never missed by its server, which kept a place for it",
    440: "a connection of a flood was lost before it could send half a frame, and the flood ended the run",
    454: "a consumer had written with its last commit, and was judged before any replica had heard of that",
    474: "batches of a part that were refused went again out of turn, and hardly ever came through",
    504: "a lane was dropped that lacked space, and its replica took the disk for full ever after",
    604: "a session was told of its move again, to a shard that was being finalized by then, and counted as new there",
    698: "a leader had said a time that was never ordered, and the judge overlooked the leap of the next one",
    710: "a bit of a disk was flipped after its power was lost, and the judge allowed for the other order alone",
    831: "an append was under way when the servers were stopped, and had not come to the last replica",
    914: "a shard was finalized before it had a record and was gone, which the judge took for unexplained",
    1005: "a learner joined under the number of a replica that another leader had added, and pushed it out",
    1201: "a session waited as long at each home as the refusals of a full lane had taught it, and an append took 5 s",
    1206: "as 914, when the answer to a silent replica finalized the shard",
    1268: "all copies of a lane were made after it was trimmed, and none could say what a session had done in it",
    1421: "a spare that stood in for one replica was taken for the successor of another, which left its shard short",
    1485: "a receipt named the shard that a session had moved to, and the record was in the one that it came from",
    1493: "what was behind a batch of a part that had failed was sent again and again until the deadline",
    1510: "clocks went back while nobody had power, and a grace whose beginning was not ordered lasted as much longer",
    1668: "names of users were kept as the operator's, and the judge waited for them; nobody was there to ask spares",
    1751: "a leader was slow while nobody heard it, the next one was fast, and the judge took that for a leap",
    1935: "two replicas held damage that nobody had read yet, and the judge allowed for one",
    2241: "two consumers of one name had gone on under different ones, and each waited for the other",
    3393: "a replica left an aggregator that it suspects alone for a minute, in which others used up all events",
    4379: "a renewal was ordered seconds after its leader had said the time, which the judge counted from then",
    4699: "a replica was silent, and once more a moment later, and the judge counted both as one",
    4957: "all clocks were set ahead while nobody had power, and names that were idle by them went, which was accused",
}
"""Seeds, and what each of them has found."""
AT_ONCE = 5


@pytest.mark.parametrize(
    ("engine", "first"), [(engine, first) for engine, seeds in SEEDS.items() for first in range(1, seeds + 1, AT_ONCE)]
)
def test_nothing_is_violated(engine: EngineName, first: int) -> None:
    for seed in range(first, first + AT_ONCE):
        assert holds(seed, engine).acknowledged > 0


def test_every_engine_is_simulated() -> None:
    assert set(SEEDS) == set(registry.names()) - {"toy", "sparse-toy"}


def holds(seed: int, engine: EngineName = DEFAULT_ENGINE) -> Result:
    result = run_seed(seed, engine)
    said = f"ithaca sim --engine {engine} --seed {seed}: {result.violation}\n{result.report}"
    assert result.violation is None, said
    return result


@pytest.mark.campaign
@pytest.mark.parametrize("seed", [97, 260])
def test_a_replica_may_be_silent_for_a_minute(seed: int) -> None:
    drawn = configuration_of(seed)
    assert drawn.faults == SILENT_FAULTS
    assert drawn.troubled_s > MINUTE_S
    holds(seed)


@pytest.mark.parametrize("seed", FOUND)
def test_seeds_that_found_something_find_nothing(seed: int) -> None:
    holds(seed)


@pytest.mark.campaign
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("engine", SEEDS)
def test_every_fault_and_every_named_path_comes_up(engine: EngineName) -> None:
    coverage = Coverage(engine)
    for seed in range(1, CAMPAIGN_SEEDS + 1):
        coverage.add(holds(seed, engine))
    assert coverage.missing() == []


@pytest.mark.parametrize("engine", SEEDS)
def test_the_seeds_of_a_run_draw_every_kind_of_fault(engine: EngineName) -> None:
    drawn = Counter(kind for seed in DRAWN for kind in configuration_of(seed, engine).faults)
    assert set(drawn) == set(simulated(engine).faults)


def test_reports_of_many_seeds_go_through_aggregators() -> None:
    drawn = Counter(configuration_of(seed).aggregators for seed in DRAWN)
    assert set(drawn) == {(), (1,), (1, 1), (1, 2), (1, 1, 2)}
    seed = next(seed for seed in DRAWN if configuration_of(seed).aggregators == (1, 1, 2))
    assert run_seed(seed).counts["path aggregator: reports passed on"] > 0


def test_a_seed_is_the_same_run_every_time() -> None:
    assert run_seed(11) == run_seed(11)


def traces(seeds: range, hash_seed: str) -> list[str]:
    program = f"from ithaca.sim.run import run_seed\nfor seed in {seeds!r}: print(run_seed(seed).trace)"
    environment = {"PYTHONHASHSEED": hash_seed, "PATH": ""}
    ran = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    return ran.stdout.split()


@pytest.mark.parametrize(
    "seeds", [range(1, 4), pytest.param(range(1, 101), marks=[pytest.mark.campaign, pytest.mark.timeout(3600)])]
)
def test_a_seed_is_the_same_run_in_another_process(seeds: range) -> None:
    one, other = traces(seeds, "1"), traces(seeds, "2")
    assert len(one) == len(seeds)
    assert one == other
