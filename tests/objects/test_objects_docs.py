"""What docs/objects.md prints runs as it stands there, and so do the examples of public names."""

import doctest
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ithaca.objects
import ithaca.objects.aio

PAGE = Path(__file__).parents[2] / "docs" / "objects.md"
BLOCKS = re.findall(r"^## ?#? ?([^\n]+)$|^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)
PROGRAMS: dict[str, str] = {}
for heading, program in BLOCKS:
    if heading:
        title = heading
    else:
        PROGRAMS[title] = program


def test_the_examples_are_found() -> None:
    assert {"A class on the log", "A bank", "A queue of jobs with leases"} <= PROGRAMS.keys()


@pytest.mark.parametrize("title", PROGRAMS)
def test_an_example_runs_as_it_is_printed(title: str, tmp_path: Path) -> None:
    path = tmp_path / "example.py"
    path.write_text(PROGRAMS[title])
    ran = subprocess.run([sys.executable, "-W", "error", str(path)], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


EXAMPLES = {
    test.name: test
    for module in (ithaca.objects, ithaca.objects.aio)
    for name in module.__all__
    for test in doctest.DocTestFinder().find(
        getattr(module, name),
        f"{module.__name__}.{name}",
        module=importlib.import_module(getattr(module, name).__module__),
    )
    if test.examples
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_of_public_names_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(EXAMPLES[name], out=report.append)
    assert runner.failures == 0, "".join(report)


@pytest.mark.parametrize("name", ithaca.objects.__all__)
def test_the_twins_have_the_same_names_and_every_one_explains_itself(name: str) -> None:
    thing = getattr(ithaca.objects, name)
    assert thing.__doc__, name
    twin = getattr(ithaca.objects.aio, name)
    if inspect.isclass(thing):
        for member, function in vars(thing).items():
            if callable(function) and not member.startswith("_"):
                assert inspect.getdoc(function), f"{name}.{member} has no docstring"
                expected = inspect.signature(function).parameters.keys()
                assert inspect.signature(getattr(twin, member)).parameters.keys() == expected


def test_the_twins_export_the_same() -> None:
    assert ithaca.objects.__all__ == ithaca.objects.aio.__all__
