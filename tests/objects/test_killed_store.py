"""A process with a store is killed again and again: what it acknowledged is there, and one order explains it all."""

import json
import subprocess
import sys
import time
from math import inf
from pathlib import Path
from typing import Any

import pytest
from tests.objects.killed_client import KEYS
from tests.objects.linearizable import Operation, explained

import ithaca
from ithaca.objects import Store

LINES = 80
"""What a process says before it is killed."""


def killed(log: Path, state: Path, seed: int) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "tests.objects.killed_client", str(log), str(state), str(seed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]) as child:
        assert child.stdout is not None
        lines = [child.stdout.readline() for _ in range(LINES)]
        child.kill()
        lines += child.stdout.readlines()
    return [json.loads(line) for line in lines if line.endswith("\n")]


def history_of(said: list[dict[str, Any]]) -> list[Operation]:
    answers = {each["answer"]: each for each in said if "answer" in each}
    history = []
    for call in (each for each in said if "call" in each):
        answer = answers.get(call["call"])
        returned, result = (inf, None) if answer is None else (answer["at"], answer["result"])
        keys: list[int] = call["keys"]
        if call["name"] == "get":
            found = None if result is None else dict(zip(keys, result, strict=True))
            history.append(Operation("get", call["at"], returned, dict.fromkeys(keys), {}, found))
        else:
            history.append(Operation("put", call["at"], returned, {}, dict.fromkeys(keys, call["call"]), result))
    return history


@pytest.mark.parametrize("has_file", [True, False], ids=["sqlite", "memory"])
def test_what_was_acknowledged_survives_kills(tmp_path: Path, has_file: bool) -> None:
    said: list[dict[str, Any]] = []
    for seed in range(3):
        said += killed(tmp_path / "log", tmp_path / "state.db", seed)
    history = history_of(said)
    assert sum(each.returned != inf for each in history) >= LINES
    state = tmp_path / "state.db" if has_file else None
    with ithaca.open(tmp_path / "log") as log, Store(log, "killed", state=state) as store:
        called = time.monotonic()
        found = store.get_many([b"%d" % key for key in range(KEYS)])
        values = {int(key): None if value is None else value.decode() for key, value in found.items()}
        history.append(Operation("get", called, time.monotonic(), dict.fromkeys(range(KEYS)), {}, values))
    assert explained(history, KEYS)
