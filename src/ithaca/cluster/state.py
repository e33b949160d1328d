"""`supervisor.json`: what a supervisor says of itself and its children, for those who look from outside."""

import os
from pathlib import Path
from typing import Literal

import msgspec

from ithaca.model.decoding import UNDECODABLE
from ithaca.model.errors import Corrupt

NAME = "supervisor.json"

ChildPhase = Literal["starting", "running", "waiting", "fenced", "stopped"]


class ChildState(msgspec.Struct):
    """One child. `status` is the exit status of its last run, negative for a signal; `since_us` of the phase."""

    name: str
    phase: ChildPhase = "starting"
    pid: int | None = None
    restarts: int = 0
    since_us: int = 0
    status: int | None = None


class SupervisorState(msgspec.Struct):
    """The supervisor's process and its children, as they were when the file was last written."""

    pid: int
    since_us: int
    children: list[ChildState]


def save_state(directory: Path, state: SupervisorState) -> None:
    """Replace the file at once; readers see the old one or the new one."""
    new = directory / f"{NAME}.new"
    new.write_bytes(msgspec.json.format(msgspec.json.encode(state)) + b"\n")
    os.replace(new, directory / NAME)


def load_state(directory: Path) -> SupervisorState | None:
    """What the file says, which may be of a supervisor that is gone; None when there is none. Raises `Corrupt`."""
    try:
        return msgspec.json.decode((directory / NAME).read_bytes(), type=SupervisorState)
    except FileNotFoundError:
        return None
    except UNDECODABLE as error:
        raise Corrupt(f"cannot be decoded: {error}", file=str(directory / NAME)) from error
