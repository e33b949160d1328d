"""A planted bug: a small mistake, as an exact change of one module's text."""

from collections.abc import Callable
from dataclasses import dataclass

from ithaca.sim.configuration import Configuration

Needs = Callable[[Configuration], bool]


def anything(_: Configuration) -> bool:
    """What a bug needs that any seed may catch."""
    return True


@dataclass(frozen=True)
class Bug:
    """In the source of `module`, `old` becomes `new`; `what` says what is wrong then."""

    name: str
    what: str
    module: str
    old: str
    new: str
    needs: Needs = anything
    """Whether a seed has what it takes to make a difference; the others are tried after those that have."""
    engine: str = "scalog"
    """Whose seeds show it."""
