"""Set-up takes the quickest interpreter that can make an environment, and none that is too old or broken."""

import sys
from pathlib import Path

import pytest

from tools import find_python


def interpreter(directory: Path, name: str, script: str) -> None:
    directory.mkdir(exist_ok=True)
    (directory / name).write_text(f"#!/bin/sh\n{script}\n")
    (directory / name).chmod(0o755)


def says(version: str, seconds: float, name: str) -> str:
    return f"echo {version} {seconds} {name}"


@pytest.mark.parametrize(
    ("programs", "taken"),
    [
        ({"python3": says("3 11", 0.005, "plain"), "python3.11": says("3 11", 0.004, "optimised")}, "optimised"),
        ({"python3.11": says("3 11", 0.0040, "older"), "python3.12": says("3 12", 0.0041, "newer")}, "newer"),
        ({"python3": says("3 9", 0.001, "too-old"), "python3.13": says("3 13", 0.004, "new")}, "new"),
        ({"python3": "exit 1", "python3.12": says("3 12", 0.004, "whole")}, "whole"),
        ({"python3.11": says("3 11", 0.004, "known"), "python3.15": says("3 15", 0.002, "unknown")}, "known"),
        ({"python3.15": says("3 15", 0.002, "unknown")}, "unknown"),
    ],
    ids=["quickest", "newest of the same", "too old", "broken", "known before newer", "only a newer one"],
)
def test_the_quickest_is_taken(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    programs: dict[str, str],
    taken: str,
) -> None:
    for name, script in programs.items():
        interpreter(tmp_path / "bin", name, script)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    find_python.main()
    assert capsys.readouterr().out == f"{taken}\n"


def test_where_there_is_none_the_way_out_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit, match="install it"):
        find_python.main()


def test_a_real_one_is_timed() -> None:
    found = find_python.judged(sys.executable)
    assert found is not None
    seconds, version, program = found
    assert seconds > 0
    assert version == sys.version_info[:2]
    assert Path(program).samefile(sys.executable)
