"""Rates of all contenders as a picture of bars, with what each round gave; engines side by side in colours."""

from pathlib import Path
from typing import Any

GREY, BLUE = "#9aa0a6", "#1a73e8"
OF_ENGINES = (BLUE, "#e8710a", "#188038", "#9334e6")


def draw(report: dict[str, Any], path: Path) -> None:
    """Draw the rates of a report into a PNG file; those that have a peer are coloured."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = len(report["contenders"])
    figure = Figure(figsize=(9, 1 + (0.25 if "engines" in report else 0.4) * rows), layout="constrained")
    FigureCanvasAgg(figure)
    panel = figure.subplots()
    if "engines" in report:
        _draw_engines(panel, report["engines"])
    else:
        _draw_contenders(panel, report["contenders"])
    panel.invert_yaxis()
    panel.set_xscale("log")
    panel.set_xlabel("records/s")
    settings = report["settings"]
    figure.suptitle(f"{report['bench']}: {settings['record_bytes']} bytes, {_clients(settings['clients'])}")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def _draw_contenders(panel: Any, contenders: dict[str, Any]) -> None:
    for row, figures in enumerate(contenders.values()):
        ratios = figures.get("ratios")
        _draw_bar(panel, row, 0.8, figures, GREY if ratios is None else BLUE)
        share = "" if ratios is None else f"  {ratios['rate']:.2f} of {ratios['to']}"
        panel.annotate(share, (figures["records_per_s"], row), va="center", fontsize=8)
    panel.set_yticks(range(len(contenders)), list(contenders))


def _draw_engines(panel: Any, works: dict[str, dict[str, Any]]) -> None:
    engines = list(dict.fromkeys(engine for by_engine in works.values() for engine in by_engine))
    height = 0.8 / len(engines)
    for row, by_engine in enumerate(works.values()):
        for number, engine in enumerate(engines):
            if engine in by_engine:
                at = row + (number - (len(engines) - 1) / 2) * height
                _draw_bar(panel, at, height, by_engine[engine], _colour(number))
    panel.set_yticks(range(len(works)), list(works))
    bars = [panel.barh(0, 0, color=_colour(number), label=engine) for number, engine in enumerate(engines)]
    panel.legend(handles=bars, fontsize=8)


def _draw_bar(panel: Any, at: float, height: float, figures: dict[str, Any], colour: str) -> None:
    panel.barh(at, figures["records_per_s"], height, color=colour)
    rounds = [each["records_per_s"] for each in figures["rounds"]]
    panel.plot(rounds, [at] * len(rounds), "|", color="black", markersize=8)


def _colour(number: int) -> str:
    return OF_ENGINES[number % len(OF_ENGINES)]


def _clients(count: int | tuple[int, ...]) -> str:
    """As in a title.

    >>> _clients(8), _clients((1, 2, 8))
    ('8 clients', '1, 2, 8 clients')
    """
    return f"{count if isinstance(count, int) else ', '.join(map(str, count))} clients"
