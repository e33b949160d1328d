"""The package: what its metadata says, and that a wheel of it installs into an empty environment, with each extra."""

import re
import subprocess
import sys
import tomllib
import zipfile
from importlib import import_module
from pathlib import Path

import pytest
from tests.cli.command import environment
from tests.deploy.wheels import ROOT, built

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
GUIDE = (ROOT / "docs" / "guides" / "install.md").read_text(encoding="utf-8")
SMOKE = """
import sys
import ithaca
with ithaca.open("./events") as log:
    assert log.append(b"hello").position == 1
assert "site-packages" in ithaca.__file__, ithaca.__file__
"""
USES = {
    "": SMOKE,
    "arrow": SMOKE + "\nwith ithaca.open('./events') as log: assert log.read_range(1).to_arrow().num_rows == 1",
    "compare": SMOKE + "\nimport confluent_kafka, nats, redis",
    "certs": SMOKE + "\nimport cryptography.x509",
    "objectstore": SMOKE
    + "\nimport ithaca.archive\nwith ithaca.open('./events') as log: ithaca.archive.back_up(log, 'memory://b/events')",
    "plot": SMOKE + "\nimport ithaca.bench.experiments.plot, matplotlib",
    "spark": SMOKE + "\nimport pyspark_ithaca, ithaca.spark, pandas, pyarrow",
}


def test_the_metadata_is_whole() -> None:
    assert (ROOT / PROJECT["readme"]).exists()
    assert all((ROOT / name).exists() for name in PROJECT["license-files"])
    oldest = re.search(r"3\.(\d+)", PROJECT["requires-python"])
    assert oldest is not None
    assert f"Programming Language :: Python :: 3.{oldest[1]}" in PROJECT["classifiers"]
    assert "Typing :: Typed" in PROJECT["classifiers"]
    for text in [*PROJECT["scripts"].values(), *PROJECT["entry-points"]["pytest11"].values()]:
        module, _, name = text.partition(":")
        assert not name or callable(getattr(import_module(module), name))


def test_every_extra_is_in_the_guide_and_is_installed_by_a_test() -> None:
    for extra in PROJECT["optional-dependencies"]:
        assert f"| `{extra}` |" in GUIDE
        assert extra in USES or extra == "dev"


def test_messages_name_packages_that_an_index_has() -> None:
    """Until Ithaca is on an index, `pip install ithaca[...]` installs nothing, or something else."""
    wrong = [path for path in (ROOT / "src").rglob("*.py") if re.search(r"install '?ithaca", path.read_text("utf-8"))]
    assert not wrong


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make dist` builds."""
    return built(tmp_path_factory.mktemp("dist"))


@pytest.mark.campaign
def test_a_wheel_has_every_module_and_its_marks(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    sources = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").rglob("*.py")}
    assert sources <= names
    assert {"ithaca/py.typed", "pyspark_ithaca/py.typed"} <= names
    assert {name for name in names if name.endswith(".py")} == sources


@pytest.mark.campaign
@pytest.mark.timeout(900)
@pytest.mark.parametrize("extra", USES)
def test_a_wheel_installs_into_an_empty_environment(wheel: Path, extra: str, tmp_path: Path) -> None:
    bare = {name: value for name, value in environment().items() if name != "PYTHONPATH"}
    subprocess.run([sys.executable, "-m", "venv", "venv"], cwd=tmp_path, check=True)
    python = tmp_path / "venv" / "bin" / "python"
    wanted = f"{wheel}[{extra}]" if extra else str(wheel)
    install = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", wanted]
    ran = subprocess.run(install, env=bare, capture_output=True, text=True, timeout=800)
    if "Temporary failure in name resolution" in ran.stderr or "No matching distribution" in ran.stderr:
        pytest.skip(f"no package index can be reached: {ran.stderr[-200:]}")
    assert ran.returncode == 0, ran.stderr
    subprocess.run([str(python), "-c", USES[extra]], cwd=tmp_path, env=bare, check=True, timeout=60)
    said = subprocess.run([python.with_name("ithaca"), "--version"], env=bare, capture_output=True, text=True)
    assert said.stdout.startswith("ithaca ")
