"""A comparison as Markdown: a table for each workload, the systems with the same promise together."""

from typing import Any

TIMES = ("p50", "p99", "p99.9")
HEADINGS = (
    *("system", "records/s", "spread", "MB/s"),
    *(f"{which} ms" for which in TIMES),
    *("CPU µs/record", "bytes/record", "to Ithaca"),
)


def group_of(about: dict[str, Any]) -> str:
    """What systems must have in common to be compared.

    >>> group_of({"durable": "synced", "copies": 2})
    'synced on two disks'
    """
    if about["durable"] == "synced":
        return "synced on two disks" if about["copies"] > 1 else "synced on one disk"
    return "page cache of two servers"


def groups(report: dict[str, Any], workload: dict[str, Any]) -> dict[str, list[str]]:
    """The systems of a workload by what they promise, the quickest first; those that failed last."""
    found: dict[str, list[str]] = {}
    systems = workload["systems"]
    for name in sorted(systems, key=lambda name: -systems[name].get("records_per_s", 0)):
        found.setdefault(group_of(report["systems"][name]), []).append(name)
    return dict(sorted(found.items(), key=lambda each: GROUPS.index(each[0])))


GROUPS = ("synced on two disks", "page cache of two servers", "synced on one disk")


def markdown(report: dict[str, Any]) -> str:
    """The whole report as text; what could not be had, or failed, is named with its reason."""
    lines = ["# Side by side", "", f"Each figure is a median over rounds that took turns; {_settings(report)}.", ""]
    for workload in report["workloads"]:
        lines += [f"## {workload['title']}", "", f"| {' | '.join(HEADINGS)} |", "|---|" + "---:|" * (len(HEADINGS) - 1)]
        for group, names in groups(report, workload).items():
            lines.append(f"| *{group}* |" + " |" * (len(HEADINGS) - 1))
            lines += [_row(name, workload["systems"][name]) for name in names]
        lines.append("")
    lines += ["## Systems", "", "| system | version | durable when it acknowledges | order |", "|---|---|---|---|"]
    for name, about in report["systems"].items():
        version = about.get("version", f"not had: {_one_line(about.get('missing', ''))}")
        lines.append(f"| {name} | {version} | {about['acknowledged']} | {about['order']} |")
    return "\n".join(lines) + "\n"


def _row(name: str, figures: dict[str, Any]) -> str:
    if "failed" in figures:
        return f"| {name} | failed: {_one_line(figures['failed'])} |" + " |" * (len(HEADINGS) - 2)
    low, high = figures["spread"]
    latency = figures.get("latency_ms", {})
    cells = [
        f"{figures['records_per_s']:,.0f}",
        f"{low:,.0f} to {high:,.0f}",
        f"{figures['bytes_per_s'] / 1e6:,.1f}",
        *("" if latency.get(which) is None else f"{latency[which]:.2f}" for which in TIMES),
        f"{figures['server_cpu_us'] + figures['client_cpu_us']:,.1f}",
        f"{figures['written_bytes']:,.0f}",
        f"{figures['rate_to_reference']:.2f}" if "rate_to_reference" in figures else "",
    ]
    return f"| {name} | {' | '.join(cells)} |"


def _one_line(text: str) -> str:
    return " ".join(text.replace("|", "/").split())


def _settings(report: dict[str, Any]) -> str:
    settings = report["settings"]
    if not settings:
        return "nothing was measured"
    return f"{settings['rounds']} rounds of {settings['seconds']:g} s, {machine(settings)}"


def machine(settings: dict[str, Any]) -> str:
    """On what it was measured."""
    return (
        f"{settings['cores']} cores, {settings['file_system']}, Ithaca {settings['version']}, "
        f"Python {settings['python']}"
    )
