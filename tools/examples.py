"""The examples of README.md and of the guides: as blocks, for the tests that run them, and as files, for type checkers.

python -m tools.examples            write build/examples, a file for each page, of testing.md for each block
"""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "build" / "examples"
PAGES = (
    "README.md",
    *(f"docs/guides/{name}.md" for name in ("embedded", "cluster", "spark", "operator", "testing", "install")),
)
_BLOCK = re.compile(r'^```(\w+)(?: title="([^"]*)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
GIVEN = {"README.md": "from pyspark.sql import SparkSession\n\nspark = SparkSession.builder.getOrCreate()\n"}
"""What a page takes for granted."""


@dataclass(frozen=True)
class Block:
    """A block of code, as it is printed."""

    page: str
    line: int
    language: str
    title: str
    """What it is called where it is not simply to be run: a file, or an example for other machines."""
    code: str


def blocks(page: str) -> list[Block]:
    """The blocks of a page, from top to bottom."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return [
        Block(page, text.count("\n", 0, match.start(3)) + 1, match[1], match[2] or "", match[3])
        for match in _BLOCK.finditer(text)
    ]


def programs(page: str) -> list[str]:
    """The Python of a page as files: one, or one for each block where these are files of their own."""
    found = [block.code for block in blocks(page) if block.language == "python" and not block.title]
    alone = [block.code for block in blocks(page) if block.language == "python" and block.title]
    if page.endswith("testing.md"):
        return found
    return [GIVEN.get(page, "") + "\n\n".join(found), *alone] if found else alone


def main() -> int:
    TARGET.mkdir(parents=True, exist_ok=True)
    for path in TARGET.glob("*.py"):
        path.unlink()
    for page in PAGES:
        for number, program in enumerate(programs(page)):
            (TARGET / f"{Path(page).stem.lower()}_{number}.py").write_text(program, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
