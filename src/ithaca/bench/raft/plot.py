"""What the variants gave, as pictures: rates by payload and batch, and the bytes on the disk for a byte of payload."""

from pathlib import Path
from typing import Any


def draw(report: dict[str, Any], path: Path) -> None:
    """Draw a report of `sharing` into a PNG file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    points: list[dict[str, Any]] = report["points"]
    names = [f"{point['record_bytes']} B x {point['batch']}" for point in points]
    variants = list(points[0]["variants"])
    figure = Figure(figsize=(10, 4), layout="constrained")
    FigureCanvasAgg(figure)
    rates, written = figure.subplots(1, 2)
    width = 0.8 / len(variants)
    for row, variant in enumerate(variants):
        at = [place + (row - (len(variants) - 1) / 2) * width for place in range(len(points))]
        figures = [point["variants"][variant] for point in points]
        rates.bar(at, [each["bytes_per_s"] / 1e6 for each in figures], width, label=variant)
        written.bar(at, [each["written"] for each in figures], width, label=variant)
    for panel, label in ((rates, "MB/s of payload"), (written, "bytes written per server for a byte of payload")):
        panel.set_xticks(range(len(points)), names, rotation=20)
        panel.set_ylabel(label)
    rates.legend()
    figure.suptitle(report["bench"])
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
