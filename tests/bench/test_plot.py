"""Pictures of experiments; matplotlib is an extra."""

import sys
from pathlib import Path
from typing import Any

import pytest

from ithaca.bench.experiments.plot import check_can_plot, draw
from ithaca.model.errors import InvalidInput


def report(*scenarios: str) -> dict[str, Any]:
    turn = {"bins": [0, 10, 20, 10] * 25, "events_s": {"killed": 0.3}}
    turns = {"undisturbed": turn | {"events_s": {}}, **dict.fromkeys(scenarios, turn)}
    return {"bench": "failures", "load_records_per_s": 1000.0, "bin_s": 0.01, "rounds": [turns]}


@pytest.mark.parametrize("scenarios", [("one",), ("one", "two", "three")])
def test_each_scenario_has_a_panel(tmp_path: Path, scenarios: tuple[str, ...]) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "pictures" / "failures.png"
    draw(report(*scenarios), path)
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = int.from_bytes(data[16:20]), int.from_bytes(data[20:24])
    assert (width, height) == (1080, round(120 * (1 + 2.6 * len(scenarios))))


def test_without_matplotlib_the_way_out_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InvalidInput, match=r"pip install matplotlib, or leave it out with --no-plot"):
        check_can_plot()
