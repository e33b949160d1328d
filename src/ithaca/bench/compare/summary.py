"""What a comparison reports: medians over the rounds with their spread, and ratios to the reference within rounds."""

from collections.abc import Sequence
from statistics import median
from typing import Any

from ithaca.bench.compare.catalogue import REFERENCE
from ithaca.bench.compare.histogram import added, percentile_ms
from ithaca.bench.compare.kept import Kept


def report(kept: Kept, workloads: Sequence[str], systems: Sequence[str], about: dict[str, Any]) -> dict[str, Any]:
    """Everything that is kept of these; `about` says what this run found out about systems."""
    lines = {name: kept.of(name) for name in workloads if kept.of(name)}
    settings = [line["settings"] for each in lines.values() for line in each]
    # A system that could be had before is not missing, although this run could not have it.
    known = about | kept.about(systems)
    return {
        "bench": "compare",
        "reference": REFERENCE,
        "systems": {name: known[name] for name in systems if name in known},
        "workloads": [_workload(each, systems) for each in lines.values()],
        "settings": settings[-1] if settings else {},
    }


def _workload(lines: Sequence[dict[str, Any]], systems: Sequence[str]) -> dict[str, Any]:
    """Of each system the first line that has it, with the reference that took turns with it."""
    found: dict[str, Any] = {}
    for line in lines:
        for name, outcome in summaries(line["systems"]).items():
            if name in systems:
                found.setdefault(name, outcome)
    return {**lines[0]["workload"], "systems": found, "settings": lines[0]["settings"]}


def summaries(systems: dict[str, Any]) -> dict[str, Any]:
    """Of systems that took turns with each other."""
    reference = systems.get(REFERENCE, {}).get("rounds")
    return {name: _summary(found, reference) for name, found in systems.items()}


def _summary(found: dict[str, Any], reference: list[dict[str, Any]] | None) -> dict[str, Any]:
    if "failed" in found:
        return found
    rounds = found["rounds"]
    rates = [each["records_per_s"] for each in rounds]
    summary: dict[str, Any] = {
        which: round(median(each[which] for each in rounds), 3)
        for which in ("records_per_s", "bytes_per_s", "server_cpu_us", "client_cpu_us", "written_bytes")
    }
    summary["spread"] = [round(min(rates), 1), round(max(rates), 1)]
    latencies = [each["latency"] for each in rounds if each["latency"] is not None]
    if latencies:
        summary["latency_ms"] = {
            which: round(median(each[which] for each in latencies), 4) for which in ("p50", "p99", "max")
        }
        summary["histogram"] = histogram = added(each["histogram"] for each in rounds)
        summary["latency_ms"]["p99.9"] = percentile_ms(histogram, 0.999)
    if reference is not None:
        pairs = list(zip(rounds, reference, strict=False))
        summary["rate_to_reference"] = round(median(a["records_per_s"] / b["records_per_s"] for a, b in pairs), 3)
        compared = [(a["latency"], b["latency"]) for a, b in pairs if a["latency"] and b["latency"]]
        if compared:
            summary["p50_to_reference"] = round(median(a["p50"] / b["p50"] for a, b in compared), 3)
    return summary
