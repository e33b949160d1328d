"""Lives of a store with one module of the product changed: a script, in an interpreter of its own.

`python mutant_life.py` reads what `tests.planted.mutant` does, from `{"name", "module", "old", "new", "lives"}`, and
writes the number of the first life that goes wrong; nothing if all go well.
"""

import json
import sys

import pytest
from tests.planted.mutant import CannotPlant, Finder


def main() -> None:
    task = json.load(sys.stdin)
    finder = Finder(task)
    sys.meta_path.insert(0, finder)
    from tests.engines.raft.storage.shared_log_life import Life, shrink

    if finder.found != 1:
        raise CannotPlant(f"bug {task['name']!r}: {task['module']} was imported {finder.found} times")
    with pytest.MonkeyPatch.context() as monkeypatch:
        shrink(monkeypatch)
        for seed in range(task["lives"]):
            try:
                Life(seed).live()
            except Exception:
                print(seed)
                return


if __name__ == "__main__":
    main()
