"""What several commands share: option types, sizes with units, examples in help texts."""

import re
from pathlib import Path
from typing import Annotated, Literal

import typer

from ithaca.model.engine import DEFAULT_ENGINE, EngineName

EmbeddedPathOption = Annotated[
    Path,
    typer.Option(
        "--path", "-p", envvar="ITHACA_PATH", metavar="DIR", help="The directory of the log; embedded logs only."
    ),
]
PathOption = Annotated[
    Path | None,
    typer.Option("--path", "-p", envvar="ITHACA_PATH", metavar="DIR", help="The directory of an embedded log."),
]
BootstrapOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        "-b",
        envvar="ITHACA_BOOTSTRAP",
        metavar="HOST:PORT,...",
        help="A cluster, by one or more of its orderers.",
    ),
]
ClusterDirectoryOption = Annotated[
    Path, typer.Option("--dir", metavar="DIR", help="The directory of the cluster on this machine.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")]
# Spelled out again: the aliases of ithaca.model.records would load msgspec before --help is printed.
DurabilityName = Literal["fsync", "os"]
CompressionName = Literal["none", "lz4", "zstd"]
DurabilityOption = Annotated[
    DurabilityName,
    typer.Option(help="What an acknowledgement means: synced to the disk, or handed to the operating system."),
]
EngineOption = Annotated[EngineName, typer.Option(help="How records get their places in the order.")]
FreshEngineOption = Annotated[
    EngineName | None,
    typer.Option(metavar="NAME", show_default=DEFAULT_ENGINE, help="How records get their places in the order."),
]
CompressionOption = Annotated[CompressionName, typer.Option(help="How batches are compressed.")]

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:I?B)?", re.IGNORECASE)


def parse_size(text: str | int) -> int:
    """Bytes from `4096`, `64K`, `1.5G`; units are powers of 1024.

    >>> parse_size("64K"), parse_size("1.5G")
    (65536, 1610612736)
    """
    match = _SIZE.fullmatch(str(text).strip())
    size = int(float(match[1]) * _UNITS[match[2].upper()]) if match else 0
    if size <= 0:
        raise typer.BadParameter(f"{text!r} is not a size; write it as 4096, 64K, 100M or 10G")
    return size


def parse_position(text: str) -> int:
    """A position on the command line."""
    if not re.fullmatch(r"[0-9]+", text) or int(text) < 1:
        raise typer.BadParameter(f"{text!r} is not a position; positions are whole numbers from 1 on")
    return int(text)


def examples(*lines: str) -> str:
    """An epilog of command lines, each on a line of its own.

    Typer joins single lines into paragraphs and reads square brackets as styles.
    """
    return "\n\n".join(["Examples:", *(line.replace("[", r"\[") for line in lines)])
