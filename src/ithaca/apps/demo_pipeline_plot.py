"""The picture of a pipeline demo: how the stream kept up, and what the finalized shards were asked.

Matplotlib is an extra (`plot`), and is loaded only here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ithaca.apps.fraud.plain import Hourly
from ithaca.model.errors import InvalidInput

_QUIET, _STRONG = "#9aa0a6", "#1a73e8"


@dataclass(frozen=True, slots=True)
class Picture:
    """What is drawn."""

    appended: Sequence[tuple[float, int]]
    judged: Sequence[tuple[float, int]]
    """Seconds by the same clock, and how many by then."""
    replaced_s: float
    hourly: Sequence[Hourly]


def check_can_plot() -> None:
    """`InvalidInput` says what is missing; asked before anything is started."""
    if find_spec("matplotlib") is None:
        raise InvalidInput("a picture needs matplotlib: pip install matplotlib, or leave it out with --no-plot")


def draw(picture: Picture, path: Path) -> None:
    """Draw a PNG file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 7), layout="constrained")
    FigureCanvasAgg(figure)
    stream, hours = figure.subplots(2, 1)
    _draw_stream(stream, picture)
    _draw_hours(hours, picture)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120, format="png")


def _draw_stream(panel: Any, picture: Picture) -> None:
    start = picture.appended[0][0]
    for label, points, colour in (("appended", picture.appended, _QUIET), ("judged", picture.judged, _STRONG)):
        times, counts = [0.0, *(when - start for when, _ in points)], [0, *(count for _, count in points)]
        panel.step(times, counts, color=colour, label=label, where="post")
    panel.axvline(picture.replaced_s - start, color="black", linewidth=0.6, linestyle=":", label="shards replaced")
    panel.set_title("the stream: payments appended, and judged by Spark")
    panel.set_xlabel("seconds")
    panel.set_ylabel("payments")
    panel.legend(loc="upper left", fontsize=8)


def _draw_hours(panel: Any, picture: Picture) -> None:
    hours = [hour for hour, _, _, _ in picture.hourly]
    panel.bar(hours, [cents / 100 for _, _, _, cents in picture.hourly], color=_QUIET, label="turnover")
    panel.set_title("the finalized shards: turnover and users by hour of the day")
    panel.set_xlabel("hour")
    panel.set_xticks(range(0, 25, 3))
    panel.set_xlim(-1, 24)
    panel.set_ylabel("turnover, euros")
    users = panel.twinx()
    users.plot(hours, [count for _, _, count, _ in picture.hourly], color=_STRONG, marker="o", label="users")
    users.set_ylabel("users")
    users.set_ylim(bottom=0)
