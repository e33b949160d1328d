"""Where measurements happen: always a fresh directory, always gone afterwards."""

import zlib
from pathlib import Path

import pytest

from ithaca.bench.place import file_system, payload, surroundings, workspace


def test_a_workspace_is_fresh_and_goes_with_the_parent_made_for_it(tmp_path: Path) -> None:
    parent = tmp_path / "made" / "for" / "this"
    with workspace(parent) as one, workspace(parent) as other:
        assert one != other
        (one / "data").write_bytes(b"x")
    assert not parent.exists()


def test_a_workspace_leaves_what_it_did_not_make(tmp_path: Path) -> None:
    (tmp_path / "mine").write_bytes(b"x")
    with workspace(tmp_path):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_workspace_goes_after_a_failure_too(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="inside"), workspace(tmp_path / "parent"):
        raise RuntimeError("inside")
    assert list(tmp_path.iterdir()) == []


def test_the_file_system_is_named() -> None:
    assert file_system(Path("/proc")) == "proc"
    assert surroundings(Path("/proc"))["cores"] >= 1  # type: ignore[operator]


def test_payload_repeats_between_runs_and_does_not_compress() -> None:
    assert payload(10_000) == payload(10_000)
    assert len(zlib.compress(payload(10_000))) > 9_900
