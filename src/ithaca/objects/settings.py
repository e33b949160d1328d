"""How a replica is run: where it keeps snapshots, and what it checks."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict

from ithaca.model.arguments import flag, items, text, whole
from ithaca.model.errors import InvalidInput
from ithaca.model.paths import local_path
from ithaca.model.units import Duration, optional_seconds
from ithaca.objects.limits import OBJECT_CHECK_COMMANDS, OBJECT_SNAPSHOT_COMMANDS, OBJECT_TIMEOUT_S
from ithaca.objects.machine import Pace

Checks = Literal["stop", "warn", "off"]
Place = str | os.PathLike[str]


class Options(TypedDict, total=False):
    """The arguments of `Settings`, for those who pass them on."""

    replica: str
    snapshots: Place | None
    snapshot_commands: int
    retain: Sequence[str]
    checks: Checks
    check_commands: int
    read_only: bool
    timeout: Duration | None


@dataclass(frozen=True, slots=True)
class Settings:
    """What `replicate` takes besides the log and the class.

    >>> Settings(snapshots="./snapshots", replica="a", retain=["a", "b"]).checks
    'stop'
    """

    replica: str = ""
    """What this replica is called, for `retain` and in errors; a name outlives restarts."""
    snapshots: Place | None = None
    """A directory, or "log": in the log itself, where every replica finds them."""
    snapshot_commands: int = OBJECT_SNAPSHOT_COMMANDS
    """One is taken after so many commands."""
    retain: Sequence[str] = ()
    """The replicas, this one among them, that must have a snapshot before the log is trimmed behind the oldest.

    The log is trimmed as a whole: objects on it that have no `retain` keep what they need, other records are lost.
    """
    checks: Checks = "stop"
    """What to do when replicas differ: raise `Diverged` from then on, log it, or do not look."""
    check_commands: int = OBJECT_CHECK_COMMANDS
    """They compare their states after so many commands, or later if the state is large."""
    read_only: bool = False
    """Append nothing: for a log that was opened for reading, and for those who only watch."""
    timeout: Duration | None = OBJECT_TIMEOUT_S
    """How long commands and fresh reads wait; None waits for ever."""

    def __post_init__(self) -> None:
        retain = self.retain
        text(self.replica, "replica", 'the name of this replica, such as "a"')
        items(retain, "retain", 'a list of replicas, such as ["a", "b"]')
        if self.snapshots is not None:
            local_path(self.snapshots, "snapshots")
        if retain and (self.snapshots is None or self.replica not in retain):
            raise InvalidInput(
                "retain names the replicas that must have a snapshot before the log is trimmed, this one among them: "
                'pass replica="a", retain=["a", "b"] and where snapshots are kept'
            )
        if self.checks not in ("stop", "warn", "off"):
            raise InvalidInput(f'checks is {self.checks!r}: use "stop", "warn" or "off"')
        whole(self.check_commands, "check_commands", 1)
        whole(self.snapshot_commands, "snapshot_commands", 1)
        flag(self.read_only, "read_only")
        optional_seconds(self.timeout)

    @property
    def timeout_s(self) -> float | None:
        """`timeout` in seconds."""
        return optional_seconds(self.timeout)

    @property
    def pace(self) -> Pace:
        """How often, as the machine counts."""
        checks = 0 if self.checks == "off" else self.check_commands
        return Pace(checks, 0 if self.snapshots is None or self.read_only else self.snapshot_commands)
