"""`--compare-tls`: the same producers on a cluster without TLS and on one with it.

Both clusters run all the time, and the rounds alternate between them: an idle cluster is quiet.
"""

from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ithaca.bench.cluster.append import AppendSettings, cluster_contender, spread
from ithaca.bench.cluster.producers import producers
from ithaca.bench.cluster.target import measured_cluster
from ithaca.bench.measure import Progress, interleave, ratios, summarize
from ithaca.bench.place import surroundings, workspace
from ithaca.cluster.temporary import Shape

PLAIN = "without TLS"
SECURE = "with TLS"


def run_compare_tls(
    parent: Path, settings: AppendSettings, progress: Progress, *, bench: str = "append"
) -> dict[str, Any]:
    """What TLS costs: the ratio to the same without is formed within each round."""
    shape = settings.cluster
    assert isinstance(shape, Shape), "both clusters are started for the measurement"
    with workspace(parent) as directory, ExitStack() as stack:
        setting = asdict(settings) | surroundings(directory)
        contenders = {}
        for name, tls in ((PLAIN, False), (SECURE, True)):
            this = replace(shape, tls=tls)
            cluster = stack.enter_context(measured_cluster(directory / name.replace(" ", "-"), this, progress))
            seats = spread(cluster, settings.producers)
            team = stack.enter_context(producers(cluster.bootstrap, seats, settings.plan, cluster.tls))
            contenders[name] = cluster_contender(stack, cluster, team, replace(settings, cluster=this), progress)
        samples = interleave(contenders, settings.rounds, progress)
    report = {name: summarize(of_one) for name, of_one in samples.items()}
    main = {key: value for key, value in report[SECURE].items() if key != "rounds"}
    compared = {SECURE: {PLAIN: ratios(samples[SECURE], samples[PLAIN])}}
    return {"bench": bench, **main, "contenders": report, "compared": compared, "settings": setting}


def run_compare_tls_latency(parent: Path, settings: AppendSettings, progress: Progress) -> dict[str, Any]:
    """The same for lone appends."""
    return run_compare_tls(parent, replace(settings, producers=1, batch=1, window=1), progress, bench="latency")
