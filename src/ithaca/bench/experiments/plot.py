"""Throughput over time as a picture: one panel for each scenario, above it the undisturbed turn of the same round.

Matplotlib is an extra (`plot`), and is loaded only here.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from ithaca.bench.experiments.experiment import UNDISTURBED
from ithaca.model.errors import InvalidInput

SMOOTH_BINS = 5
"""The thin line is of single bins, the thick one a mean over so many."""
_QUIET, _DISTURBED = "#9aa0a6", "#1a73e8"


def check_can_plot() -> None:
    """`InvalidInput` says what is missing; asked before anything is measured."""
    if find_spec("matplotlib") is None:
        raise InvalidInput("a picture needs matplotlib: pip install matplotlib, or leave it out with --no-plot")


def draw(report: dict[str, Any], path: Path) -> None:
    """Draw the first round of the report into a PNG file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    turns: dict[str, Any] = report["rounds"][0]
    scenarios = [name for name in turns if name != UNDISTURBED]
    figure = Figure(figsize=(9, 1 + 2.6 * len(scenarios)), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(scenarios), 1, squeeze=False, sharex=True)[:, 0]
    for panel, name in zip(panels, scenarios, strict=True):
        _draw_panel(panel, turns[UNDISTURBED], turns[name], name, report["bin_s"])
    panels[-1].set_xlabel("seconds")
    figure.suptitle(f"{report['bench']}: acknowledged, at {report['load_records_per_s']:,.0f} records/s")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def _draw_panel(panel: Any, quiet: dict[str, Any], turn: dict[str, Any], name: str, bin_s: float) -> None:
    for label, bins, colour in ((UNDISTURBED, quiet["bins"], _QUIET), (name, turn["bins"], _DISTURBED)):
        rate = np.asarray(bins) / bin_s
        times = (np.arange(len(rate)) + 0.5) * bin_s
        panel.plot(times, rate, color=colour, linewidth=0.4, alpha=0.5)
        panel.plot(times, _smooth(rate), color=colour, linewidth=1.3, label=label)
    for event, at_s in turn["events_s"].items():
        panel.axvline(at_s, color="black", linewidth=0.6, linestyle=":")
        panel.annotate(event, (at_s, 1.0), xycoords=("data", "axes fraction"), rotation=90, fontsize=7, va="top")
    panel.set_ylabel("records/s")
    panel.set_ylim(bottom=0)
    panel.legend(loc="lower right", fontsize=8)


def _smooth(rate: "np.ndarray[Any, np.dtype[np.float64]]") -> "np.ndarray[Any, np.dtype[np.float64]]":
    width = min(SMOOTH_BINS, len(rate))
    return np.convolve(rate, np.ones(width) / width, mode="same")
