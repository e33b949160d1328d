"""`ithaca status`: every server of a cluster, how it is, and what is wrong if something is."""

import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from ithaca.cli.options import BootstrapOption, ClusterDirectoryOption, JsonOption, TimeoutOption, examples
from ithaca.cli.output import emit_json
from ithaca.cli.target import is_written, parse_bootstrap

if TYPE_CHECKING:
    from ithaca.cluster.state import ChildState
    from ithaca.cluster.status import ClusterStatus
    from ithaca.cluster.vitals import Vitals
    from ithaca.model.security.tls import TLS
    from ithaca.model.server_place import ServerPlace

STATUS_EXAMPLES = examples(
    "ithaca status",
    "ithaca status --lanes --rates",
    "ithaca status --dir ./small --json",
    "ithaca status -b 10.0.0.7:7600,10.0.0.8:7600",
)
UNHEALTHY = 1
MEASURED_S = 1.0
COLUMNS = ("uptime", "stored", "free", "behind")
Answer = TypeVar("Answer")


def status(
    context: typer.Context,
    directory: ClusterDirectoryOption = Path("ithaca-data"),
    bootstrap: BootstrapOption = None,
    timeout: TimeoutOption = None,
    lanes: Annotated[bool, typer.Option("--lanes", help="Show every lane, and what each server holds of it.")] = False,
    rates: Annotated[
        bool, typer.Option("--rates", help="Measure for a second what each server takes in, and show that.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Ask every server of a cluster how it is, and say what is wrong.

    Of the cluster in the directory or, with --bootstrap, of the one that is
    there. Behind are positions that are ordered and that a server cannot
    serve yet. Exit status 0 when it is healthy, else 1.
    """
    import asyncio

    from ithaca.cluster.status import places_of
    from ithaca.model.security.tls import tls_from_environment

    if bootstrap is not None and is_written(context, "directory") and is_written(context, "bootstrap"):
        raise typer.BadParameter("--dir and --bootstrap each name a cluster; give one of them")
    supervised: list[str] = []
    children: dict[str, ChildState] = {}
    data: Path | None = None
    if bootstrap is None or (is_written(context, "directory") and not is_written(context, "bootstrap")):
        data = directory = directory.absolute()
        places, children, supervised, tls = _supervised(directory)

        async def find() -> "Sequence[ServerPlace]":
            return places
    else:
        addresses, tls = parse_bootstrap(bootstrap), tls_from_environment()

        async def find() -> "Sequence[ServerPlace]":
            return await places_of(addresses, tls)

    found, counted = asyncio.run(_within(_ask(find(), tls, MEASURED_S if rates else 0.0), timeout))
    report = _report(found, counted, children, supervised, data)
    if as_json:
        emit_json(report)
    else:
        _print(report, lanes=lanes, rates=rates)
    if not report["healthy"]:
        raise typer.Exit(UNHEALTHY)


async def _ask(
    finding: "Coroutine[Any, Any, Sequence[ServerPlace]]", tls: "TLS | None", measured_s: float
) -> "tuple[ClusterStatus, dict[str, Vitals]]":
    """What every server says, and what it counts."""
    import asyncio

    from ithaca.cluster.status import cluster_status
    from ithaca.cluster.vitals import vitals_of

    places = await finding
    return await asyncio.gather(cluster_status(places, tls), vitals_of(places, tls, measured_s=measured_s))


async def _within(asking: Coroutine[Any, Any, Answer], timeout_s: float | None) -> Answer:
    import asyncio

    from ithaca.model.errors import DeadlineExceeded

    try:
        return await asyncio.wait_for(asking, timeout_s)
    except TimeoutError as error:
        if isinstance(error, DeadlineExceeded):
            raise
        raise DeadlineExceeded(f"the servers did not all answer within {timeout_s} s: give them longer") from None


def _supervised(directory: Path) -> "tuple[Sequence[ServerPlace], dict[str, ChildState], list[str], TLS | None]":
    """The servers of the directory, what their supervisor says of them, what is wrong with it, and how to ask them."""
    from ithaca.cluster.layout import servers_of, spares_of
    from ithaca.cluster.local import cluster_file, supervisor_pid
    from ithaca.cluster.state import load_state

    file = cluster_file(directory)
    places = servers_of(file) + spares_of(file)
    if supervisor_pid(directory) is None:
        problem = f"no cluster runs in {directory}: start it with ithaca up --dir {directory}"
        return places, {}, [problem], file.client_tls
    state = load_state(directory)
    children = {} if state is None else {child.name: child for child in state.children}
    return places, children, [], file.client_tls


def _report(
    found: "ClusterStatus",
    counted: "dict[str, Vitals]",
    children: "dict[str, ChildState]",
    supervised: list[str],
    data: Path | None,
) -> dict[str, Any]:
    """What is shown; `data` is the directory of a cluster on this machine."""
    from ithaca.cluster.vitals import Vitals, stored_bytes
    from ithaca.model.health import lanes_of

    found = found.fenced({child.name for child in children.values() if child.phase == "fenced"})
    health = found.health
    problems = supervised or health.problems
    servers = []
    for server in found.servers:
        child = children.get(server.place.name)
        status = server.status or {}
        vitals = counted.get(server.place.name, Vitals())
        used, size = status.get("limits", {}).get("disk_bytes", (None, None))
        readable = status.get("readable")
        servers.append(
            {
                "name": server.called,
                "runs_as": server.place.name,
                "role": server.place.role,
                "shard": status.get("shard", server.place.shard),
                "number": status.get("replica", server.place.number),
                "address": str(server.place.address),
                "pid": status.get("pid") or (child.pid if child else None),
                "state": server.state,
                "restarts": child.restarts if child else None,
                "uptime_s": vitals.uptime_s,
                "memory_bytes": vitals.memory_bytes,
                "stored_bytes": None if data is None else stored_bytes(data / server.place.name),
                "free_bytes": None if size is None else size - used,
                "behind": None if readable is None or health.tail is None else max(0, health.tail - readable),
                "pending_bytes": status.get("pending_bytes"),
                "records_per_s": vitals.records_per_s,
                "bytes_per_s": vitals.bytes_per_s,
                "says": server.status,
            }
        )
    return {
        "healthy": not problems,
        "problems": problems,
        "warnings": health.warnings,
        "log": health.log,
        "first": health.first,
        "tail": health.tail,
        "servers": servers,
        "lanes": [
            {"lane": each.lane, "open": each.is_open, "ordered": each.ordered, "durable": each.durable}
            for each in lanes_of(found.servers)
        ],
    }


def _print(report: dict[str, Any], *, lanes: bool, rates: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else 140, highlight=False)
    servers = Table("server", "address", "pid", "state", "restarts", *COLUMNS, box=None, pad_edge=False)
    if rates:
        servers.add_column("records/s")
        servers.add_column("in/s")
    for server in report["servers"]:
        restarts = "" if server["restarts"] is None else str(server["restarts"])
        name = server["name"] if server["name"] == server["runs_as"] else f"{server['name']} ({server['runs_as']})"
        cells = [name, server["address"], str(server["pid"] or "-"), server["state"], restarts, *_cells(server)]
        if rates:
            records = server["records_per_s"]
            cells += ["" if records is None else f"{records:,.0f}", _size(server["bytes_per_s"])]
        servers.add_row(*cells)
    console.print(servers)
    if lanes and report["lanes"]:
        table = Table("lane", "", "ordered", "durable", box=None, pad_edge=False)
        for lane in report["lanes"]:
            durable = ", ".join(f"{length} on {name}" for name, length in lane["durable"].items())
            table.add_row(lane["lane"], "open" if lane["open"] else "closed", str(lane["ordered"]), durable)
        console.print()
        console.print(table)
    console.print()
    if report["tail"] is not None:
        console.print(f"log {report['log']}: first {report['first']}, tail {report['tail']}")
    if report["healthy"]:
        console.print("healthy")
    for warning in report["warnings"]:
        console.print(f"- warning: {warning}", markup=False, soft_wrap=True)
    for problem in report["problems"]:
        console.print(f"- {problem}", markup=False, soft_wrap=True)


def _cells(server: dict[str, Any]) -> list[str]:
    """What `COLUMNS` says of a server; nothing where it does not say."""
    behind = server["behind"]
    return [
        _span(server["uptime_s"]),
        _size(server["stored_bytes"]),
        _size(server["free_bytes"]),
        "" if behind is None else f"{behind:,}",
    ]


def _size(count: float | None) -> str:
    """A number of bytes in three digits.

    >>> _size(None), _size(0), _size(1536), _size(3 << 40)
    ('', '0 B', '1.5 KiB', '3 TiB')
    """
    if count is None:
        return ""
    units = ("B", "KiB", "MiB", "GiB", "TiB")
    power = 0
    while count >= 1000 and power < len(units) - 1:
        count, power = count / 1024, power + 1
    return f"{count:.3g} {units[power]}"


def _span(seconds: float | None) -> str:
    """A time in its two largest units.

    >>> _span(None), _span(59.9), _span(3_700), _span(200_000)
    ('', '59s', '1h 1min', '2d 7h')
    """
    if seconds is None:
        return ""
    parts: list[str] = []
    rest = int(seconds)
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        count, rest = divmod(rest, length)
        if count or parts or unit == "s":
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2])
