"""The table in docs/proof.md: the rule and the seed by which each bug was caught when it was last hunted."""

import re
from collections.abc import Mapping
from pathlib import Path

from tests.planted.hunting import Caught

PAGE = Path(__file__).parent.parent.parent / "docs" / "proof.md"
_ROW = re.compile(r"^\| `(?P<bug>[\w-]+)` \| (?P<what>.*) \| `(?P<rule>[\w-]+)`, seed (?P<seed>\d+) \|$", re.MULTILINE)


def known_seeds(page: str) -> dict[str, int]:
    """The seed of each bug in the table.

    >>> known_seeds("| `some-bug` | what is wrong | `dense`, seed 7 |")
    {'some-bug': 7}
    """
    return {row["bug"]: int(row["seed"]) for row in _ROW.finditer(page)}


def updated(page: str, caught: Mapping[str, Caught]) -> str:
    """The page with what has just been caught.

    >>> updated("| `some-bug` | what is wrong | `dense`, seed 7 |", {"some-bug": Caught(3, "once", 1, "")})
    '| `some-bug` | what is wrong | `once`, seed 3 |'
    """

    def row(found: re.Match[str]) -> str:
        now = caught.get(found["bug"])
        if now is None or now.seed is None:
            return found[0]
        return f"| `{found['bug']}` | {found['what']} | `{now.rule}`, seed {now.seed} |"

    return _ROW.sub(row, page)
