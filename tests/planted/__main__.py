"""The command: `python -m tests.planted --help`."""

import argparse
import sys
from collections.abc import Sequence

from tests.planted.bug import Bug
from tests.planted.catalogue import BUGS
from tests.planted.hunting import SEEDS, Caught, hunt
from tests.planted.table import PAGE, known_seeds, updated


def main(arguments: Sequence[str] | None = None) -> int:
    given = _arguments(arguments)
    if given.list:
        for bug in BUGS:
            print(f"{bug.name:36} {bug.what}")
        return 0
    unknown = set(given.bugs) - {bug.name for bug in BUGS}
    if unknown:
        print(f"no bug is called {', '.join(sorted(unknown))}: --list names them", file=sys.stderr)
        return 2
    chosen = [bug for bug in BUGS if not given.bugs or bug.name in given.bugs]
    known = known_seeds(PAGE.read_text())
    caught: dict[str, Caught] = {}
    for number, bug in enumerate(chosen, 1):
        found = _hunt(bug, known.get(bug.name), given.seeds, only_known=given.known)
        caught[bug.name] = found
        print(f"{number:4}/{len(chosen)} {bug.name:36} {found}", flush=True)
        if given.write:
            PAGE.write_text(updated(PAGE.read_text(), bug.name, bug.what, found))
    missed = [name for name, found in caught.items() if found.seed is None]
    print(f"{len(chosen) - len(missed)} of {len(chosen)} planted bugs were caught", *missed)
    return 1 if missed else 0


def _hunt(bug: Bug, known: int | None, seeds: range, *, only_known: bool) -> Caught:
    """First the seed that caught it last."""
    first = Caught(None, None, 0, "") if known is None else hunt(bug, [known])
    return first if first.seed is not None or only_known else hunt(bug, [seed for seed in seeds if seed != known])


def _seeds(text: str) -> range:
    first, _, last = text.partition("..")
    return range(int(first), int(last or first) + 1)


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.planted", description="Are bugs on purpose caught by the simulator's seeds?"
    )
    parser.add_argument("bugs", nargs="*", metavar="BUG", help="by name; all of them unless some are named")
    parser.add_argument("--list", action="store_true", help="say what there is")
    parser.add_argument(
        "--seeds",
        type=_seeds,
        default=SEEDS,
        help="such as 1..40; 1..200 unless told otherwise, and first the one that caught the bug last",
    )
    parser.add_argument("--known", action="store_true", help="try only the seed that caught each last")
    parser.add_argument("--write", action="store_true", help="note what was caught in the table of docs/proof.md")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
