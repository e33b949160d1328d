"""The table in docs/proof.md: the rule and the seed by which each bug was caught when it was last hunted."""

import re
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


def updated(page: str, bug: str, what: str, caught: Caught) -> str:
    """The page with what has just been caught: in its row, or in a new one behind all others.

    >>> print(updated("| `some-bug` | what is wrong | `dense`, seed 7 |", "some-bug", "", Caught(3, "once", 1, "")))
    | `some-bug` | what is wrong | `once`, seed 3 |
    >>> print(updated("| `some-bug` | what is wrong | `dense`, seed 7 |", "new-bug", "worse", Caught(3, "once", 1, "")))
    | `some-bug` | what is wrong | `dense`, seed 7 |
    | `new-bug` | worse | `once`, seed 3 |
    """
    if caught.seed is None:
        return page
    rows = list(_ROW.finditer(page))
    row = next((each for each in rows if each["bug"] == bug), None)
    now = f"| `{bug}` | {what if row is None else row['what']} | `{caught.rule}`, seed {caught.seed} |"
    if row is not None:
        return page[: row.start()] + now + page[row.end() :]
    end = rows[-1].end()
    return f"{page[:end]}\n{now}{page[end:]}"
