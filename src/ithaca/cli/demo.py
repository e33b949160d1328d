"""`ithaca demo`: wires the command line to `ithaca.apps`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from ithaca.cli.options import FreshEngineOption, examples
from ithaca.model.engine import DEFAULT_ENGINE, EngineName, Feature, engines_with

DEMO_EXAMPLES = examples(
    "ithaca demo",
    "ithaca demo --records 20000 --seed 7 --plot payments.png",
    "ithaca demo cluster --records 50000 --dir ./demo-data --keep",
    "ithaca demo marketplace",
    "ithaca demo speculation --records 2000",
)
RECORDS = {"speculation": 6_000, "pipeline": 60_000, "cluster": 800_000, "embedded": 800_000}
SPECULATIVE_ENGINE = engines_with(Feature.SPECULATION)[0]
SPECULATIVE = ("alerts", "speculation")

Name = Literal[
    "pipeline", "cluster", "embedded", "marketplace", "intrusion", "fraud", "trading", "alerts", "speculation"
]


def demo(
    name: Annotated[Name, typer.Argument(help="Which one.")] = "pipeline",
    records: Annotated[
        int | None, typer.Option(min=1000, help="Records to append.", show_default="as many as suits it")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the records; not for cluster and embedded.")] = 1,
    plot: Annotated[Path, typer.Option(metavar="FILE", help="Where the pipeline's picture goes.")] = Path(
        "demo-data/pipeline.png"
    ),
    no_plot: Annotated[bool, typer.Option("--no-plot", help="Without a picture.")] = False,
    directory: Annotated[
        Path | None,
        typer.Option("--dir", metavar="DIR", help="Where the data goes; else a temporary directory."),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the data there afterwards.")] = False,
    engine: FreshEngineOption = None,
) -> None:
    """Run a story on this machine from beginning to end, with figures, every claim checked.

    pipeline: payments into a cluster, fraud alerts by Spark as they come, shards
    replaced meanwhile, analytics on the finalized ones, a picture.

    cluster: producers, followers, a replica killed and its return. embedded: the
    log in a directory, a producer killed. These need no Spark.

    marketplace, intrusion, fraud, trading: one Spark job each, small enough to
    read; its result is compared with plain Python.

    alerts: Spark judges payments before their order is final, on the engine
    belfast, and tells what is final.

    speculation: intrusion, fraud and trading on the engine belfast, with
    databases that are written before the order is final; a shard is killed.

    A claim that does not hold ends the demo with status 1.
    """
    if name == "embedded" and engine is not None:
        raise typer.BadParameter("the log in a directory has no engine; leave --engine out")
    usual = SPECULATIVE_ENGINE if name in SPECULATIVE else DEFAULT_ENGINE
    if not _run(name, records, seed, None if no_plot else plot, directory, keep, engine or usual):
        raise typer.Exit(1)


def _run(
    name: Name,
    records: int | None,
    seed: int,
    plot: Path | None,
    directory: Path | None,
    keep: bool,
    engine: EngineName,
) -> bool:
    if name == "cluster":
        from ithaca.apps.demo_cluster import run_cluster_demo

        return run_cluster_demo(records or RECORDS[name], directory, keep, engine)
    if name == "embedded":
        from ithaca.apps.demo_embedded import run_embedded_demo

        return run_embedded_demo(records or RECORDS[name], directory, keep)
    if name == "pipeline":
        from ithaca.apps.demo_pipeline import run_pipeline_demo

        return run_pipeline_demo(records or RECORDS[name], seed, directory, keep, plot, engine)
    if name == "speculation":
        from ithaca.apps.speculative.run import run_speculation_demo

        return run_speculation_demo(records or RECORDS[name], seed, directory, keep, engine)
    from ithaca.apps.pipelines import run

    return run.run_pipeline(name, records or run.RECORDS[name], seed, directory, keep, engine)
