"""Pictures of the experiments: bars for what was varied, lines over time for what happened in a turn."""

from pathlib import Path
from typing import Any, Final

from ithaca.bench.speculation.followed import BIN_S

COLOURS: Final = {"belfast": "#1a73e8", "scalog": "#9aa0a6"}


def draw(report: dict[str, Any], path: Path) -> None:
    """Draw a report into a PNG file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    points: list[dict[str, Any]] = report["points"]
    is_over_time = "over_time" in next(iter(points[0]["engines"].values()))
    figure = Figure(figsize=(10, 3.2 * len(points) if is_over_time else 4), layout="constrained")
    FigureCanvasAgg(figure)
    if is_over_time:
        for panel, point in zip(figure.subplots(len(points), 1, squeeze=False)[:, 0], points, strict=True):
            _draw_over_time(panel, point)
    else:
        _draw_bars(figure, points)
    figure.suptitle(report["bench"])
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def _draw_over_time(panel: Any, point: dict[str, Any]) -> None:
    """End-to-end latency by when records were due, and when what happened."""
    for engine, figures in point["engines"].items():
        latency = [float("nan") if each is None else each for each in figures["over_time"]["end_to_end"]]
        panel.plot([BIN_S * number for number in range(len(latency))], latency, color=COLOURS[engine], label=engine)
        for name, at_s in figures["events_s"][0].items():
            panel.axvline(at_s, color=COLOURS[engine], linestyle=":", linewidth=1)
            panel.annotate(name, (at_s, 1), xycoords=("data", "axes fraction"), fontsize=7, rotation=90, va="top")
    panel.set_yscale("log")
    panel.set_ylabel("end to end, ms")
    panel.set_xlabel("seconds")
    panel.set_title(point["point"], fontsize=9)
    panel.legend()


def _draw_bars(figure: Any, points: list[dict[str, Any]]) -> None:
    """A panel for each latency that was measured, a group of bars for each point."""
    kinds = {"delivery_ms": "delivery", "end_to_end_ms": "end to end", "append_ms": "append"}
    shown = [kind for kind in kinds if kind in next(iter(points[0]["engines"].values()))]
    for panel, kind in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
        for number, engine in enumerate(COLOURS):
            at = [place + (number - 0.5) * 0.4 for place in range(len(points))]
            heights = [point["engines"][engine][kind]["mean"] for point in points]
            panel.bar(at, heights, 0.4, color=COLOURS[engine], label=engine)
        panel.set_xticks(range(len(points)), [point["point"] for point in points], rotation=20)
        panel.set_ylabel(f"{kinds[kind]}, mean ms")
    figure.axes[0].legend()
