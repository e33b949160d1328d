"""A planted bug: a small mistake, as an exact change of one module's text."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Bug:
    """In the source of `module`, `old` becomes `new`; `what` says what is wrong then."""

    name: str
    what: str
    module: str
    old: str
    new: str
