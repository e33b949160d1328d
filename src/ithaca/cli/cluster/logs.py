"""`ithaca logs`: what the servers of a cluster in a directory have logged."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ithaca.cli.options import ClusterDirectoryOption, JsonOption, examples
from ithaca.cli.output import emit, json_line

if TYPE_CHECKING:
    from ithaca.cluster.log_reader import LogLine

LOGS_EXAMPLES = examples(
    "ithaca logs",
    "ithaca logs -f",
    "ithaca logs shard-0-replica-1 -n 200",
    "ithaca logs --json | jq 'select(.level == \"error\")'",
)

# What peers sent may stand in a log line, and must not steer a terminal.
_ESCAPED = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"}


def logs(
    name: Annotated[
        str | None, typer.Argument(help="Of this server only, such as orderer-1 or shard-0-replica-1.")
    ] = None,
    directory: ClusterDirectoryOption = Path("ithaca-data"),
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is logged, until Ctrl-C.")] = False,
    count: Annotated[int, typer.Option("--lines", "-n", min=0, help="So many of the newest lines.")] = 50,
    as_json: JsonOption = False,
) -> None:
    """Print the newest lines that the servers have logged, merged by time."""
    import sys

    from ithaca.cluster.local import cluster_file
    from ithaca.cluster.log_reader import LogReader, check_name

    directory = directory.absolute()
    cluster_file(directory)
    if name is not None:
        check_name(directory, name)
    reader = LogReader(directory, name)
    show = _as_json if as_json else _as_text
    _emit(reader.last(count), show)
    if follow:
        for line in reader.follow():
            _emit([line], show)
            sys.stdout.flush()


def _emit(lines: "Iterable[LogLine]", show: "Callable[[LogLine], bytes]") -> None:
    emit(b"".join(map(show, lines)))


def _as_text(line: "LogLine") -> bytes:
    from ithaca.runtime.logs import render

    text = render(line.text)
    if not line.text.startswith('{"time":'):  # not from the server's logger, and so without its name
        text = f"{line.name}: {text}"
    return text.translate(_ESCAPED).encode("utf-8", "backslashreplace") + b"\n"


def _as_json(line: "LogLine") -> bytes:
    """The line as it is, or what was printed beside the log as an object of its own."""
    if line.text.startswith('{"time":'):
        return line.text.encode("utf-8", "backslashreplace") + b"\n"
    return json_line({"time": line.time.decode(), "printed_by": line.name, "text": line.text})
