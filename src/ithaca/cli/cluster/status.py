"""`ithaca status`: every server of a cluster, how it is, and what is wrong if something is."""

import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ithaca.cli.options import BootstrapOption, ClusterDirectoryOption, JsonOption, TimeoutOption, examples
from ithaca.cli.output import emit_json
from ithaca.cli.target import is_written, parse_bootstrap

if TYPE_CHECKING:
    from ithaca.cluster.state import ChildState
    from ithaca.cluster.status import ClusterStatus
    from ithaca.model.server_place import ServerPlace

STATUS_EXAMPLES = examples(
    "ithaca status",
    "ithaca status --dir ./small --json",
    "ithaca status -b 10.0.0.7:7600,10.0.0.8:7600",
)
UNHEALTHY = 1


def status(
    context: typer.Context,
    directory: ClusterDirectoryOption = Path("ithaca-data"),
    bootstrap: BootstrapOption = None,
    timeout: TimeoutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ask every server of a cluster how it is, and say what is wrong.

    Of the cluster in the directory or, with --bootstrap, of the one that is
    there. Exit status 0 when it is healthy, else 1.
    """
    import asyncio

    from ithaca.cluster.status import cluster_status, places_of

    if bootstrap is not None and is_written(context, "directory") and is_written(context, "bootstrap"):
        raise typer.BadParameter("--dir and --bootstrap each name a cluster; give one of them")
    supervised: list[str] = []
    children: dict[str, ChildState] = {}
    if bootstrap is None or (is_written(context, "directory") and not is_written(context, "bootstrap")):
        directory = directory.absolute()
        places, children, supervised = _supervised(directory)
        found = asyncio.run(_within(cluster_status(places), timeout))
    else:
        addresses = parse_bootstrap(bootstrap)

        async def ask() -> "ClusterStatus":
            return await cluster_status(await places_of(addresses))

        found = asyncio.run(_within(ask(), timeout))
    report = _report(found, children, supervised)
    if as_json:
        emit_json(report)
    else:
        _print(report)
    if not report["healthy"]:
        raise typer.Exit(UNHEALTHY)


async def _within(asking: "Coroutine[Any, Any, ClusterStatus]", timeout_s: float | None) -> "ClusterStatus":
    import asyncio

    from ithaca.model.errors import DeadlineExceeded

    try:
        return await asyncio.wait_for(asking, timeout_s)
    except TimeoutError as error:
        if isinstance(error, DeadlineExceeded):
            raise
        raise DeadlineExceeded(f"the servers did not all answer within {timeout_s} s: give them longer") from None


def _supervised(directory: Path) -> "tuple[Sequence[ServerPlace], dict[str, ChildState], list[str]]":
    """The servers of the directory, what their supervisor says of them, and what is wrong with it."""
    from ithaca.cluster.layout import servers_of, spares_of
    from ithaca.cluster.local import cluster_file, supervisor_pid
    from ithaca.cluster.state import load_state

    file = cluster_file(directory)
    places = servers_of(file) + spares_of(file)
    if supervisor_pid(directory) is None:
        return places, {}, [f"no cluster runs in {directory}: start it with ithaca up --dir {directory}"]
    state = load_state(directory)
    return places, {} if state is None else {child.name: child for child in state.children}, []


def _report(found: "ClusterStatus", children: "dict[str, ChildState]", supervised: list[str]) -> dict[str, Any]:
    from ithaca.model.health import lanes_of

    found = found.fenced({child.name for child in children.values() if child.phase == "fenced"})
    health = found.health
    problems = supervised or health.problems
    servers = []
    for server in found.servers:
        child = children.get(server.place.name)
        status = server.status or {}
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


def _print(report: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else 140, highlight=False)
    servers = Table("server", "address", "pid", "state", "restarts", box=None, pad_edge=False)
    for server in report["servers"]:
        restarts = "" if server["restarts"] is None else str(server["restarts"])
        name = server["name"] if server["name"] == server["runs_as"] else f"{server['name']} ({server['runs_as']})"
        servers.add_row(name, server["address"], str(server["pid"] or "-"), server["state"], restarts)
    console.print(servers)
    if report["lanes"]:
        lanes = Table("lane", "", "ordered", "durable", box=None, pad_edge=False)
        for lane in report["lanes"]:
            durable = ", ".join(f"{length} on {name}" for name, length in lane["durable"].items())
            lanes.add_row(lane["lane"], "open" if lane["open"] else "closed", str(lane["ordered"]), durable)
        console.print()
        console.print(lanes)
    console.print()
    if report["tail"] is not None:
        console.print(f"log {report['log']}: first {report['first']}, tail {report['tail']}")
    if report["healthy"]:
        console.print("healthy")
    for warning in report["warnings"]:
        console.print(f"- warning: {warning}", markup=False, soft_wrap=True)
    for problem in report["problems"]:
        console.print(f"- {problem}", markup=False, soft_wrap=True)
