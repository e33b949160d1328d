"""The rounds of a soak as a picture: one panel for each figure. Matplotlib is an extra, and is loaded only here."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ithaca.torture.soak.verdict import Round

_AGED, _FRESH = "#1a73e8", "#9aa0a6"
_PANELS = (
    ("memory, MiB", "memory_bytes", None),
    ("descriptors", "descriptors", None),
    ("start of a replica, ms", "start_ms", "fresh_start_ms"),
    ("append, ms", "append_ms", "fresh_append_ms"),
    ("read, ms", "read_ms", "fresh_read_ms"),
)


def draw(rounds: Sequence[Round], path: Path) -> None:
    """Draw into a PNG file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 1 + 1.8 * len(_PANELS)), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(_PANELS), 1, sharex=True)
    numbers = [each.number for each in rounds]
    for panel, (label, aged, fresh) in zip(panels, _PANELS, strict=True):
        _line(panel, numbers, [getattr(each, aged) for each in rounds], "this cluster", _AGED, label)
        if fresh is not None:
            _line(panel, numbers, [getattr(each, fresh) for each in rounds], "a fresh one", _FRESH, label)
            panel.legend(loc="lower right", fontsize=8)
    panels[-1].set_xlabel("round")
    figure.suptitle("A soak: how the cluster was after each round")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def _line(panel: Any, numbers: list[int], values: list[float], name: str, colour: str, label: str) -> None:
    scale = 1 << 20 if label.startswith("memory") else 1
    panel.plot(numbers, [value / scale for value in values], color=colour, linewidth=1.2, label=name)
    panel.set_ylabel(label, fontsize=8)
    panel.set_ylim(bottom=0)
