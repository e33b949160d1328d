"""`ithaca bench append --compare-shards`: the same producers on a cluster of one shard and on one of several.

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

ONE = "1 shard"


def run_compare_shards(parent: Path, settings: AppendSettings, progress: Progress) -> dict[str, Any]:
    """How much more several shards take than one; the ratio is formed within each round."""
    shape = settings.cluster
    assert isinstance(shape, Shape), "both clusters are started for the measurement"
    assert shape.shards > 1, "one shard is compared with several"
    several = f"{shape.shards} shards"
    with workspace(parent) as directory, ExitStack() as stack:
        setting = asdict(settings) | surroundings(directory)
        contenders = {}
        for name, shards in ((ONE, 1), (several, shape.shards)):
            this = replace(shape, shards=shards)
            cluster = stack.enter_context(measured_cluster(directory / name, this, progress))
            shards_of = spread(cluster, settings.producers)
            team = stack.enter_context(producers(cluster.bootstrap, shards_of, settings.plan, cluster.tls))
            contenders[name] = cluster_contender(stack, cluster, team, replace(settings, cluster=this), progress)
        samples = interleave(contenders, settings.rounds, progress)
    report = {name: summarize(of_one) for name, of_one in samples.items()}
    share = ratios(samples[several], samples[ONE])
    main = {key: value for key, value in report[several].items() if key != "rounds"}
    return {
        "bench": "append",
        **main,
        "contenders": report,
        "compared": {several: {ONE: share}},
        "settings": setting,
    }
