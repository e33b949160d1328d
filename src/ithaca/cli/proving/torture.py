"""`ithaca torture`: wires the command line to `ithaca.torture`."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ithaca.cli.options import DurabilityName, EngineOption, JsonOption, examples
from ithaca.cli.output import emit
from ithaca.model.engine import DEFAULT_ENGINE

if TYPE_CHECKING:
    from ithaca.cluster.temporary import Shape
    from ithaca.torture.outcome import Outcome
    from ithaca.torture.plan import Strike
    from ithaca.torture.run import Options

TORTURE_EXAMPLES = examples(
    "ithaca torture",
    "ithaca torture --faults list",
    "ithaca torture --seconds 300 --seed 7 --faults kill,pause,partition --history history.jsonl",
    "ithaca torture --replicas 3 --masking --faults all --json",
    "ithaca torture --tls --users",
    "ithaca torture --soak",
    "ithaca torture --soak --parts 1000 --segments 100 --restarts 100 --leader-changes 10 --rounds 20 --dir /dev/shm",
)
SEED_MAX = (1 << 32) - 1

FaultsOption = Annotated[
    str,
    typer.Option(
        metavar="NAMES|all|list",
        help="Which, with commas between them; list: what there is, and what this machine allows.",
    ),
]
SeedOption = Annotated[int | None, typer.Option(min=0, max=SEED_MAX, show_default="random", help="Makes the plan.")]
MaskingOption = Annotated[
    bool, typer.Option("--masking", help="A majority of a shard's replicas is enough; an odd number from 3 on.")
]
HistoryOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Keep the history here; else only if something is wrong.")
]
WhereOption = Annotated[
    Path | None,
    typer.Option("--dir", "--directory", metavar="DIR", help="Where the cluster goes; else a temporary directory."),
]
SoakOption = Annotated[bool, typer.Option("--soak", help="No faults but a year's wear in an hour; has anything grown?")]
PlotOption = Annotated[
    Path | None, typer.Option(metavar="FILE", show_default="soak.png", help="Of a soak: draw its rounds into FILE.")
]


def torture(
    seconds: Annotated[float, typer.Option(min=5, help="How long faults are injected.")] = 60,
    faults: FaultsOption = "all",
    seed: SeedOption = None,
    engine: EngineOption = DEFAULT_ENGINE,
    shards: Annotated[int, typer.Option(min=1, max=16, help="Shards.")] = 2,
    replicas: Annotated[int, typer.Option(min=1, max=15, help="Replicas per shard.")] = 2,
    orderers: Annotated[int, typer.Option(min=1, max=15, help="Orderers, an odd number.")] = 3,
    masking: MaskingOption = False,
    durability: Annotated[DurabilityName, typer.Option(help="What an acknowledgement means.")] = "fsync",
    tls: Annotated[
        bool, typer.Option("--tls", help="Every link is TLS, and everybody has a certificate; links are not cut then.")
    ] = False,
    users: Annotated[
        bool,
        typer.Option("--users", help="Each client is a user with the rights that it needs, and one has none of them."),
    ] = False,
    history: HistoryOption = None,
    directory: WhereOption = None,
    soak: SoakOption = False,
    parts: Annotated[int, typer.Option(min=0, help="Of a soak: parts that are published.")] = 100_000,
    segments: Annotated[int, typer.Option(min=0, help="Of a soak: segments that are filled.")] = 10_000,
    restarts: Annotated[int, typer.Option(min=0, help="Of a soak: restarts of replicas.")] = 10_000,
    leader_changes: Annotated[int, typer.Option(min=0, help="Of a soak: leaders that are killed.")] = 1_000,
    rounds: Annotated[int, typer.Option(min=2, help="Of a soak: how often it is measured.")] = 100,
    plot: PlotOption = None,
    no_plot: Annotated[bool, typer.Option("--no-plot", help="Of a soak: draw nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Break a cluster of real processes in many ways while clients use it, and judge what they saw.

    Servers are killed, stopped, cut off, started again, their disks fail, their
    power goes, their clocks jump: as a plan says, which is made from the seed.
    At the end the whole history must show one order in which nothing that was
    acknowledged is missing or doubled. With --users one more client does what it
    may not, and must be refused all along. Exit status: 0 every promise held, 1 one
    did not, 2 nothing was proved.

    With --soak, parts, segments, restarts and leader changes come by the
    thousand, with retention all along, and memory, descriptors, start time and
    latencies are compared between the first and the last rounds. Exit status: 1
    if one has grown by more than 20 %.
    """
    if soak:
        from ithaca.cli.proving.soak import run_soak
        from ithaca.torture.soak.plan import Counts
        from ithaca.torture.soak.run import SoakOptions

        picture = None if no_plot else plot or Path("soak.png")
        wear = SoakOptions(Counts(parts, segments, restarts, leader_changes), rounds, durability)
        raise typer.Exit(0 if run_soak(wear, directory, picture, as_json=as_json) else 1)
    if faults == "list":
        _print_faults(as_json)
        return
    from ithaca.cluster.temporary import Shape

    _check_shape(replicas, orderers, masking)
    shape = Shape(shards, replicas, orderers, durability, masking=masking, engine=engine, tls=tls, users=users)
    _torture(_options(seconds, seed, faults, shape), directory, history, as_json)


def _options(seconds: float, seed: int | None, faults: str, shape: "Shape") -> "Options":
    """What to do; a usage error for what cannot be done."""
    if shape.durability == "os" and "power" in faults:
        raise typer.BadParameter("with --durability os nothing is promised through a loss of power: leave power out")
    import random
    from dataclasses import replace

    from ithaca.cluster.layout import has_shards
    from ithaca.engines import registry
    from ithaca.model.engine import Feature
    from ithaca.model.errors import ConfigError, InvalidInput
    from ithaca.torture.crowd import Cast
    from ithaca.torture.faults.catalogue import chosen
    from ithaca.torture.run import Options

    try:
        features = registry.engine(shape.engine).features
        names = chosen([name.strip() for name in faults.split(",") if name.strip()], shape.engine, tls=shape.tls)
    except (ConfigError, InvalidInput) as error:
        raise typer.BadParameter(str(error)) from None
    if shape.durability == "os":
        names = [name for name in names if name != "power"]
    seed = random.SystemRandom().randrange(SEED_MAX + 1) if seed is None else seed
    if not has_shards(shape.engine):
        shape = replace(shape, shards=0)
    if shape.users and Feature.USERS not in features:
        raise typer.BadParameter(f"the engine {shape.engine} has no users: leave --users out")
    prepares = Feature.PREPARED in features
    speculators = int(Feature.SPECULATION in features)
    outsiders = int(shape.users)
    cast = Cast(publishers=int(prepares), writes=prepares, speculators=speculators, outsiders=outsiders)
    return Options(seconds, seed, tuple(names), shape, cast)


def _torture(options: "Options", directory: Path | None, history: Path | None, as_json: bool) -> None:
    from ithaca.torture.outcome import torture as run

    plan = options.plan()
    if not plan:
        names = ", ".join(options.faults)
        raise typer.BadParameter(f"none of {names} can strike a cluster of this shape within its promises")
    _print_plan(plan, options.seed, list(options.faults), as_json)
    with _display(options.seconds) as (tell, progress):
        outcome = run(options, directory=directory, history=history, tell=tell, progress=progress)
    _print_outcome(outcome, as_json)
    raise typer.Exit({"green": 0, "red": 1, "none": 2}[outcome.verdict])


def _check_shape(replicas: int, orderers: int, masking: bool) -> None:
    if orderers % 2 == 0:
        raise typer.BadParameter(f"--orderers is {orderers}: use an odd number")
    if masking and (replicas < 3 or replicas % 2 == 0):
        raise typer.BadParameter(f"--masking works by majority, and --replicas is {replicas}: use 3, 5, 7, ...")


def _print_faults(as_json: bool) -> None:
    from ithaca.torture.faults.catalogue import INJECTORS, availability

    for name, reason in availability().items():
        about = " ".join((INJECTORS[name].__doc__ or "").split("\n\n")[0].split())
        if as_json:
            _emit_json({"fault": name, "about": about, "unavailable": reason})
        else:
            emit(f"{name:<10} {about}\n{'' if reason is None else f'           not here: {reason}' + chr(10)}".encode())


def _print_plan(plan: "list[Strike]", seed: int, names: list[str], as_json: bool) -> None:
    if as_json:
        import msgspec

        _emit_json({"seed": seed, "faults": names, "plan": msgspec.to_builtins(plan)})
    else:
        emit(f"seed {seed}: {len(plan)} strikes of {', '.join(names)}\n".encode())
    sys.stdout.flush()


def _print_outcome(outcome: "Outcome", as_json: bool) -> None:
    if as_json:
        import msgspec

        _emit_json(msgspec.to_builtins(outcome))
        return
    fired = ", ".join(f"{name} {count}" for name, count in sorted(outcome.faults.items())) or "none"
    lines = [
        f"{outcome.acknowledged:,} records were acknowledged, {sum(outcome.events.values()):,} events recorded",
        f"faults that fired: {fired}",
        *(f"VIOLATION: {violation}" for violation in outcome.violations),
    ]
    if outcome.reason is not None:
        lines.append(f"no verdict: {outcome.reason}")
    if outcome.history is not None:
        lines.append(f"the history is in {outcome.history}")
    if outcome.kept is not None:
        lines.append(f"everything else is in {outcome.kept}")
    words = {"green": "every promise held", "red": "a promise was broken", "none": "nothing is proved"}
    lines.append(f"{outcome.verdict}: {words[outcome.verdict]} (seed {outcome.seed}, {outcome.seconds:.0f} s)")
    emit("".join(f"{line}\n" for line in lines).encode())


def _emit_json(item: object) -> None:
    import json

    emit(json.dumps(item, separators=(",", ":")).encode() + b"\n")


@contextmanager
def _display(seconds: float) -> Iterator[tuple[Callable[[str], object], Callable[[float, int], object]]]:
    """A bar below what happens, on a terminal; else only what happens, a line each."""
    if not sys.stderr.isatty():
        yield (lambda text: print(text, file=sys.stderr, flush=True)), (lambda done_s, records: None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = BarColumn(), TextColumn("{task.fields[records]:,} records"), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True, highlight=False), transient=True) as bar:
        task = bar.add_task("", total=seconds, records=0)
        yield (
            lambda text: bar.console.print(text, markup=False, soft_wrap=True),
            lambda done_s, records: bar.update(task, completed=done_s, records=records),
        )
