"""`--compare-users`: the same producers on a cluster without users, on one with them, and beside a user at its limit.

All clusters run all the time, and the rounds alternate between them. The producers of the second are a user who may
append, and nothing else. Beside them, in its own turns, another process appends as fast as it is let, as a user who may
do little.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import ithaca
from ithaca.bench.bare import values_of
from ithaca.bench.children import Child, start_child
from ithaca.bench.cluster.append import AppendSettings, cluster_contender, spread
from ithaca.bench.cluster.producers import Plan, producers
from ithaca.bench.cluster.target import Measured, measured_cluster
from ithaca.bench.measure import Progress, Sample, interleave, ratios, summarize
from ithaca.bench.place import surroundings, workspace
from ithaca.cluster.temporary import Shape
from ithaca.model.errors import IthacaError
from ithaca.model.security.users import UserLimits
from ithaca.users.limits import USERS_ASK_S

WITHOUT = "without users"
WITH = "with users"
BESIDE = "beside a user at its limit"
GREEDY_LIMITS = UserLimits(requests_per_s=5, bytes_per_s=1_000_000)
"""Of the one that is at its limit: less than a hundredth of what it would do."""
_HEARD_S = 8 * USERS_ASK_S
_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Greed:
    """What the user at its limit was let do, and how often it had to give up."""

    batches: int
    given_up: int


def run_compare_users(
    parent: Path, settings: AppendSettings, progress: Progress, *, bench: str = "append"
) -> dict[str, Any]:
    """What users cost, and what one of them costs others; ratios are formed within each round."""
    shape = settings.cluster
    assert isinstance(shape, Shape), "both clusters are started for the measurement"
    with workspace(parent) as directory, ExitStack() as stack:
        setting = asdict(settings) | surroundings(directory)
        contenders = {}
        for name, users in ((WITHOUT, False), (WITH, True)):
            this = replace(shape, users=users)
            cluster = stack.enter_context(measured_cluster(directory / name.replace(" ", "-"), this, progress))
            own, greedy = _tokens(cluster) if users else (None, None)
            seats = spread(cluster, settings.producers)
            team = stack.enter_context(producers(cluster.bootstrap, seats, settings.plan, cluster.tls, own))
            contenders[name] = cluster_contender(stack, cluster, team, replace(settings, cluster=this), progress)
        child = start_child(stack, "the user at its limit", _be_greedy, cluster.bootstrap, greedy, settings.plan)
        assert child.answer() == "ready"
        greeds: list[Greed] = []
        contenders[BESIDE] = _beside(child, contenders[WITH], greeds)
        samples = interleave(contenders, settings.rounds, progress)
    report = {name: summarize(of_one) for name, of_one in samples.items()}
    main = {key: value for key, value in report[WITH].items() if key != "rounds"}
    compared = {
        WITH: {WITHOUT: ratios(samples[WITH], samples[WITHOUT])},
        BESIDE: {WITH: ratios(samples[BESIDE], samples[WITH])},
    }
    greed = {"limits": limits_said(GREEDY_LIMITS), "rounds": [asdict(each) for each in greeds]}
    return {"bench": bench, **main, "contenders": report, "compared": compared, "greedy": greed, "settings": setting}


def run_compare_users_latency(parent: Path, settings: AppendSettings, progress: Progress) -> dict[str, Any]:
    """The same for lone appends."""
    return run_compare_users(parent, replace(settings, producers=1, batch=1, window=1), progress, bench="latency")


def limits_said(limits: UserLimits) -> dict[str, int]:
    """The limits that there are.

    >>> limits_said(UserLimits(requests_per_s=20))
    {'requests_per_s': 20}
    """
    said = {name: getattr(limits, name) for name in limits.__struct_fields__}
    return {name: value for name, value in said.items() if value}


def _tokens(cluster: Measured) -> tuple[str, str]:
    """Of the user who appends, and of the one that is at its limit; every server has heard of them."""
    with ithaca.connect(cluster.bootstrap, tls=cluster.tls, token=cluster.token) as log:
        own = log.admin.add_user("producer", ["append"])
        greedy = log.admin.add_user("greedy", ["append"], limits=GREEDY_LIMITS)
    time.sleep(_HEARD_S)
    return own, greedy


def _beside(child: Child, measure: Callable[[], Sample], greeds: list[Greed]) -> Callable[[], Sample]:
    """The same measurement while the child does what it can."""

    def turn() -> Sample:
        child.ask("begin")
        sample = measure()
        child.ask("end")
        greeds.append(child.answer())
        return sample

    return turn


def _be_greedy(parent: Connection, bootstrap: str, token: str, plan: Plan) -> None:
    """The process of the user at its limit: between `begin` and `end` it appends without a pause."""
    values = values_of(plan.record_bytes, plan.batch)[0]
    with ithaca.connect(bootstrap, token=token, timeout=_TIMEOUT_S) as log:
        parent.send("ready")
        while True:
            parent.recv()
            batches = given_up = 0
            while not parent.poll():
                try:
                    log.append_many(values)
                    batches += 1
                except IthacaError:
                    given_up += 1
            parent.recv()
            parent.send(Greed(batches, given_up))
