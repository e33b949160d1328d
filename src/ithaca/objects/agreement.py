"""Do all replicas come to the same state? Pure: checks in, a verdict out.

A replica says now and then what its state is: a hash, and a checksum of the outcome of each command since the last
time. Whoever applies that check compares it with its own. Where outcomes differ, the first of them names the command.
Where only the states differ, both replicas play the commands since the last check once more, say the hash behind each
of them (a trace), and the first that differs names it.
"""

from array import array
from collections import OrderedDict
from dataclasses import dataclass, field

from ithaca.model.errors import Diverged
from ithaca.objects.entries import Check, Trace
from ithaca.objects.limits import OBJECT_CHECKS_KEPT, OBJECT_TRACE_STATE_BYTES_MAX

TRACE_BYTES = 8
"""Of each hash in a trace."""


@dataclass(slots=True)
class Stretch:
    """The commands from one check to the next, as this replica applied them."""

    start: int
    """The position of the first record that may be one of them."""
    base: bytes | None
    """The state before them, if it is small enough to be kept."""
    positions: "array[int]" = field(default_factory=lambda: array("q"))
    methods: list[str] = field(default_factory=list)
    outcomes: "array[int]" = field(default_factory=lambda: array("I"))
    state_hash: bytes = b""

    @property
    def last(self) -> int:
        return self.positions[-1]

    def add(self, position: int, method: str, outcome: int) -> None:
        self.positions.append(position)
        self.methods.append(method)
        self.outcomes.append(outcome)

    def check(self, kind: str, version: int, origin: int, replica: str) -> Check:
        return Check(kind, version, origin, replica, self.last, self.state_hash, self.outcomes.tobytes())


class Agreement:
    """What one replica knows of its own past, to be compared with what others say of theirs."""

    def __init__(self, name: str, origin: int) -> None:
        self._name = name
        self._origin = origin
        self._kept: OrderedDict[int, Stretch] = OrderedDict()
        self._own_traces: dict[int, bytes] = {}
        self._others: dict[int, bytes] = {}

    def closed(self, stretch: Stretch) -> None:
        """A check is due behind this stretch; its hash is known."""
        self._kept[stretch.last] = stretch
        while len(self._kept) > OBJECT_CHECKS_KEPT:
            self._kept.popitem(last=False)

    def heard(self, check: Check) -> Diverged | None:
        """What another replica says; None when it agrees, or when this one cannot tell."""
        own = self._kept.get(check.position)
        if own is None or check.origin == self._origin:
            return None
        theirs = array("I")
        usable = len(check.outcomes) - len(check.outcomes) % theirs.itemsize
        theirs.frombytes(check.outcomes[:usable])
        common = min(len(own.outcomes), len(theirs))  # one that began between two checks knows the last of them alone
        for number in range(common, 0, -1):
            if own.outcomes[-number] != theirs[-number]:
                return self._named(own, len(own.outcomes) - number, f"had another outcome on replica {check.replica}")
        if own.state_hash == check.state_hash:
            return None
        return Diverged(
            f"{self._name} has another state on replica {check.replica} behind position {check.position}: a command "
            f"from position {own.start} on is not deterministic"
        )

    def wanted(self, position: int) -> Stretch | None:
        """What is to be played once more to find the command; None when it is not known, or was done."""
        own = self._kept.get(position)
        if own is None or own.base is None or position in self._own_traces:
            return None
        return own

    def traced(self, position: int, hashes: bytes) -> Diverged | None:
        """This replica has played it once more."""
        self._own_traces[position] = hashes
        return self._compared(position, self._others.get(position))

    def told(self, trace: Trace) -> Diverged | None:
        """Another one has."""
        if trace.origin == self._origin or trace.position not in self._kept:
            return None
        self._others[trace.position] = trace.hashes
        return self._compared(trace.position, trace.hashes)

    def _compared(self, position: int, theirs: bytes | None) -> Diverged | None:
        own, hashes = self._kept.get(position), self._own_traces.get(position)
        if own is None or hashes is None or theirs is None:
            return None
        common = min(len(hashes), len(theirs)) // TRACE_BYTES
        for number in range(common, 0, -1):
            at, until = -number * TRACE_BYTES, (1 - number) * TRACE_BYTES or None
            if hashes[at:until] != theirs[at:until]:
                return self._named(own, len(own.positions) - number, "left different states on two replicas")
        return Diverged(
            f"{self._name} had different states behind position {position}, and playing the commands from {own.start} "
            "on once more gave the same: look for what depends on the process, its memory or its machine"
        )

    def _named(self, own: Stretch, number: int, what: str) -> Diverged:
        position, method = own.positions[number], own.methods[number]
        return Diverged(
            f"{self._name}: the command {method} at position {position} {what}: it is not deterministic. It may ask "
            "for the time, chance, the order of a set or a machine's name; use `ithaca.objects.current()` for these",
            position=position,
            method=method,
        )


def base_of(data: bytes | None) -> bytes | None:
    """A state to begin the next stretch with, unless it is too large to be kept."""
    return data if data is not None and len(data) <= OBJECT_TRACE_STATE_BYTES_MAX else None
