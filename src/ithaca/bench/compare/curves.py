"""Distributions of latency as curves: how slow the slowest half, tenth, hundredth and so on of all requests were."""

import math
from collections.abc import Mapping
from html import escape
from typing import Final

from ithaca.bench.compare.histogram import Histogram, slower_shares

WIDTH: Final = 720
HEIGHT: Final = 300
LEFT, RIGHT, TOP, BOTTOM = 60, 10, 20, 34
LEGEND_ROW: Final = 18
LEGEND_COLUMNS: Final = 3
DECADES: Final = 4
"""The slowest ten-thousandth is the last that is drawn."""
OURS: Final = ("#1f6feb", "#8250df", "#0a7ea4", "#57606a", "#3fb3ff", "#b083f0")
OTHERS: Final = ("#d1242f", "#e3720c", "#2da44e", "#bf8700", "#c2388c", "#7d4e00", "#6fdd8b", "#ff8182")


def curves(title: str, histograms: Mapping[str, Histogram]) -> str:
    """A picture with a curve for each system; both axes are logarithmic."""
    points = {name: slower_shares(each) for name, each in histograms.items() if each}
    if not points:
        return ""
    values = [ms for each in points.values() for _, ms in each]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    high = max(high, low + 1)

    def across(share: float) -> float:
        return LEFT + min(-math.log10(share), DECADES) / DECADES * (WIDTH - LEFT - RIGHT)

    def down(ms: float) -> float:
        return TOP + (high - math.log10(ms)) / (high - low) * (HEIGHT - TOP - BOTTOM)

    parts = [f'<text class="soft" x="{LEFT}" y="12">{escape(title)}</text>']
    for exponent in range(low, high + 1):
        y = down(10.0**exponent)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{10.0**exponent:g} ms</text>')
    for share, label in ((1.0, "0%"), (0.5, "50%"), (0.1, "90%"), (0.01, "99%"), (1e-3, "99.9%"), (1e-4, "99.99%")):
        x, end = across(share), "end" if share == 1e-4 else "middle"
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>')
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="{end}">{label}</text>')
    colours = _colours(list(points))
    for number, (name, each) in enumerate(points.items()):
        # A curve begins at the left edge: nothing is quicker than its first bin.
        places = [(across(1.0), down(each[0][1])), *((across(share), down(ms)) for share, ms in each)]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(
            f'<polyline points="{line}" fill="none" stroke="{colours[name]}" stroke-width="2">'
            f"<title>{escape(name)}</title></polyline>"
        )
        x = LEFT + number % LEGEND_COLUMNS * (WIDTH - LEFT) / LEGEND_COLUMNS
        y = HEIGHT + number // LEGEND_COLUMNS * LEGEND_ROW
        parts.append(f'<rect x="{x:.1f}" y="{y}" width="14" height="4" fill="{colours[name]}"/>')
        parts.append(f'<text x="{x + 20:.1f}" y="{y + 6}">{escape(name)}</text>')
    height = HEIGHT + -(-len(points) // LEGEND_COLUMNS) * LEGEND_ROW
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">{"".join(parts)}</svg>'


def _colours(names: list[str]) -> dict[str, str]:
    """Cold ones for the engines of Ithaca, warm ones for the others."""
    ours = [name for name in names if name.startswith("ithaca")]
    others = [name for name in names if not name.startswith("ithaca")]
    return {name: OURS[number % len(OURS)] for number, name in enumerate(ours)} | {
        name: OTHERS[number % len(OTHERS)] for number, name in enumerate(others)
    }
