"""A comparison as one page of HTML that needs nothing else: bars with their spread, latencies, CPU, systems."""

from collections.abc import Callable, Iterable
from html import escape
from typing import Any

from ithaca.bench.compare.curves import curves
from ithaca.bench.compare.table import groups, machine

WIDTH, ROW, LABEL = 720, 24, 190
STYLE = """
:root { color-scheme: light dark; --ink: #1d2733; --soft: #66727f; --line: #d9dee4; --page: #fff; --bar: #9fb3c8;
  --ours: #1f6feb; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --soft: #9aa7b4; --line: #30363d; --page: #0d1117;
  --bar: #4b5b6b; --ours: #58a6ff; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); max-width: 60rem;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.7rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; border-top: 1px solid var(--line);
  padding-top: 1.2rem; }
h3 { font-size: 1rem; margin: 1.2rem 0 .2rem; } p.soft, td.soft { color: var(--soft); }
nav { columns: 2; } nav a { display: block; } a { color: var(--ours); text-decoration: none; }
svg { width: 100%; height: auto; display: block; } svg text { font: 12px system-ui, sans-serif; fill: var(--ink); }
svg .soft { fill: var(--soft); } .bar { fill: var(--bar); } .ours { fill: var(--ours); }
.grid { stroke: var(--line); }
.spread { stroke: var(--ink); stroke-width: 1.5; }
table { border-collapse: collapse; width: 100%; } td, th { text-align: left; padding: .3rem .6rem .3rem 0;
  border-bottom: 1px solid var(--line); vertical-align: top; }
"""

DISTRIBUTION = "latency by the share of requests that are as quick"
Figures = dict[str, Any]


def page(report: dict[str, Any]) -> str:
    """The whole report."""
    workloads = report["workloads"]
    links = "".join(f'<a href="#{escape(each["name"])}">{escape(each["title"])}</a>' for each in workloads)
    sections = "".join(_workload(report, each) for each in workloads)
    systems = "".join(_system(name, about) for name, about in report["systems"].items())
    settings = report["settings"]
    facts = (
        f"{settings['rounds']} interleaved rounds of {settings['seconds']:g} s, {machine(settings)}. Bars are medians, "
        "lines the spread of the rounds; distributions are of all rounds together. Compare within a group: its systems "
        "promise the same at the acknowledgement."
        if settings
        else "Nothing was measured."
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Ithaca side by side</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head><body>'
        f'<h1>Ithaca side by side</h1><p class="soft">{escape(facts)}</p>'
        f'<nav>{links}<a href="#systems">Systems</a></nav>'
        f'{sections}<h2 id="systems">Systems</h2>{systems}</body></html>\n'
    )


def _workload(report: dict[str, Any], workload: dict[str, Any]) -> str:
    parts = [f'<h2 id="{escape(workload["name"])}">{escape(workload["title"])}</h2>']
    for group, names in groups(report, workload).items():
        found = {name: workload["systems"][name] for name in names if "failed" not in workload["systems"][name]}
        parts.append(f"<h3>{escape(group)}</h3>")
        parts.append(_bars("records/s", found, lambda each: each["records_per_s"], lambda each: each["spread"], _rate))
        timed = {name: each for name, each in found.items() if "latency_ms" in each}
        latency = _bars(
            "latency, p50 with a line to p99, ms",
            timed,
            lambda each: each["latency_ms"]["p50"],
            lambda each: [each["latency_ms"]["p50"], each["latency_ms"]["p99"]],
            lambda value: f"{value:,.2f}",
        )
        parts.append(latency)
        parts.append(curves(DISTRIBUTION, {name: each["histogram"] for name, each in timed.items()}))
        parts.append(_bars("CPU per record, µs", found, _cpu, lambda each: [_cpu(each)] * 2, lambda x: f"{x:,.1f}"))
        if any(_written(each) for each in found.values()):
            parts.append(_bars("bytes on disks per record", found, _written, lambda each: [_written(each)] * 2, _rate))
        for name in names:
            if "failed" in workload["systems"][name]:
                why = escape(workload["systems"][name]["failed"])
                parts.append(f'<p class="soft">{escape(name)}: {why}</p>')
    return "".join(parts)


def _cpu(figures: Figures) -> float:
    return float(figures["server_cpu_us"] + figures["client_cpu_us"])


def _written(figures: Figures) -> float:
    return float(figures["written_bytes"])


def _rate(value: float) -> str:
    return f"{value:,.0f}"


def _bars(
    title: str,
    found: dict[str, Figures],
    value: Callable[[Figures], float],
    spread: Callable[[Figures], Iterable[float]],
    shown: Callable[[float], str],
) -> str:
    """Horizontal bars from zero; the widest spread fits."""
    if not found:
        return ""
    largest = max(max(spread(each)) for each in found.values()) or 1.0
    scale = (WIDTH - LABEL - 90) / largest
    rows = []
    for number, (name, each) in enumerate(found.items()):
        top = 20 + number * ROW
        length = value(each) * scale
        low, high = (LABEL + end * scale for end in spread(each))
        kind = "ours" if name.startswith("ithaca") else "bar"
        rows.append(
            f'<text x="{LABEL - 8}" y="{top + 15}" text-anchor="end">{escape(name)}</text>'
            f'<rect class="{kind}" x="{LABEL}" y="{top + 3}" width="{length:.1f}" height="{ROW - 8}" rx="2"/>'
            f'<line class="spread" x1="{low:.1f}" x2="{high:.1f}" y1="{top + 11}" y2="{top + 11}"/>'
            f'<text x="{max(LABEL + length, high) + 6:.1f}" y="{top + 15}">{shown(value(each))}</text>'
        )
    height = 24 + len(found) * ROW
    heading = f'<text class="soft" x="{LABEL}" y="12">{escape(title)}</text>'
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">{heading}{"".join(rows)}</svg>'


def _system(name: str, about: dict[str, Any]) -> str:
    rows = {"acknowledged when": about["acknowledged"], "order": about["order"]}
    if "missing" in about:
        rows["not measured"] = about["missing"]
    else:
        rows |= {"version": about["version"], **about["settings"]}
    if "kept its space" in about:
        rows["kept its space"] = about["kept its space"]
    cells = "".join(
        f'<tr><td class="soft">{escape(key)}</td><td>{escape(text)}</td></tr>' for key, text in rows.items()
    )
    return f"<h3>{escape(name)}</h3><table>{cells}</table>"
