"""Rates of all contenders as a picture of bars, with what each round gave."""

from pathlib import Path
from typing import Any


def draw(report: dict[str, Any], path: Path) -> None:
    """Draw the rates of a report into a PNG file; those that have a peer are coloured."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    contenders: dict[str, Any] = report["contenders"]
    figure = Figure(figsize=(9, 1 + 0.4 * len(contenders)), layout="constrained")
    FigureCanvasAgg(figure)
    panel = figure.subplots()
    for row, figures in enumerate(contenders.values()):
        ratios = figures.get("ratios")
        panel.barh(row, figures["records_per_s"], color="#9aa0a6" if ratios is None else "#1a73e8")
        rounds = [each["records_per_s"] for each in figures["rounds"]]
        panel.plot(rounds, [row] * len(rounds), "|", color="black", markersize=8)
        share = "" if ratios is None else f"  {ratios['rate']:.2f} of {ratios['to']}"
        panel.annotate(share, (figures["records_per_s"], row), va="center", fontsize=8)
    panel.set_yticks(range(len(contenders)), list(contenders))
    panel.invert_yaxis()
    panel.set_xscale("log")
    panel.set_xlabel("records/s")
    settings = report["settings"]
    figure.suptitle(f"{report['bench']}: {settings['record_bytes']} bytes, {settings['clients']} clients")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
