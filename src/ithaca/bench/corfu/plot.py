"""What measurements of corfu gave, as bars: by sets, ways of reading, groups, kinds of holes and outages."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Bars = Mapping[str, Sequence[float]]
"""The heights of each series."""


def draw(report: dict[str, Any], path: Path) -> None:
    """Draw a report of any of them into a PNG file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    panels = PANELS[report["bench"]](report)
    figure = Figure(figsize=(5 * len(panels), 4), layout="constrained")
    FigureCanvasAgg(figure)
    for panel, (label, names, bars) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        _draw_bars(panel, label, names, bars)
    figure.suptitle(report["bench"])
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def _draw_bars(panel: Any, label: str, names: Sequence[str], bars: Bars) -> None:
    width = 0.8 / len(bars)
    for row, (series, heights) in enumerate(bars.items()):
        at = [place + (row - (len(bars) - 1) / 2) * width for place in range(len(names))]
        panel.bar(at, heights, width, label=series)
    panel.set_xticks(range(len(names)), names, rotation=20)
    panel.set_ylabel(label)
    panel.set_ylim(bottom=0)
    if len(bars) > 1:
        panel.legend(fontsize=8)


Panel = tuple[str, list[str], Bars]


def _sets(report: dict[str, Any]) -> list[Panel]:
    points = report["points"]
    names = [f"{point['sets']} sets" for point in points]

    def of(which: str, scale: float = 1.0) -> Bars:
        return {engine: [point[engine][which] * scale for point in points] for engine in ("corfu", "scalog")}

    p50 = {engine: [point[engine]["latency_ms"]["p50"] for point in points] for engine in ("corfu", "scalog")}
    return [
        ("MB/s of payload", names, of("bytes_per_s", 1e-6)),
        ("p50 of a batch, ms", names, p50),
        ("processor time for a record, µs", names, of("cpu_us_per_record")),
    ]


def _lone(report: dict[str, Any]) -> list[Panel]:
    names = ["corfu", "scalog", "token"]
    bars = {which: [report[name]["latency_ms"][which] for name in names] for which in ("p50", "p99")}
    return [("ms", names, bars)]


def _reads(report: dict[str, Any]) -> list[Panel]:
    contenders = report["contenders"]
    ways = [name.removeprefix("corfu: ") for name in contenders if name.startswith("corfu: ")]

    def rates(chosen: list[str]) -> Bars:
        return {
            engine: [contenders[f"{engine}: {way}"]["records_per_s"] for way in chosen]
            for engine in ("corfu", "scalog")
        }

    streams = [way for way in ways if way != "read"]
    return [("records/s", streams, rates(streams)), ("records/s, one by one", ["read"], rates(["read"]))]


def _tokens(report: dict[str, Any]) -> list[Panel]:
    points = report["points"]
    names = [f"groups of {point['group']}" for point in points]
    return [
        ("tokens/s", names, {"rate": [point["tokens_per_s"] for point in points]}),
        ("sequencer's processor time for a token, µs", names, {"µs": [point["sequencer_cpu_us"] for point in points]}),
    ]


def _holes(report: dict[str, Any]) -> list[Panel]:
    kinds = [name for name in report if isinstance(report[name], dict) and "fill_ms" in report[name]]
    filled = {which: [report[kind]["fill_ms"][which] for kind in kinds] for which in ("p50", "p99")}
    waited = {"p50": [report[kind]["reader_ms"]["p50"] for kind in kinds]}
    return [("ms to fill, from the decision", kinds, filled), ("ms that a reader waits", kinds, waited)]


def _outages(report: dict[str, Any]) -> list[Panel]:
    outages = report["outages"]
    names = list(outages)
    bars = {
        "without acknowledgements": [outages[name]["gap_ms"] for name in names],
        "of them after the decision": [outages[name].get("back_ms", 0.0) for name in names],
    }
    return [("ms", names, bars)]


PANELS = {
    "corfu append": _sets,
    "corfu latency": _lone,
    "corfu read": _reads,
    "corfu sequencer": _tokens,
    "corfu holes": _holes,
    "corfu reconfigure": _outages,
}
