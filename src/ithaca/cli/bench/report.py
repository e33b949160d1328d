"""How the reports of benchmarks are printed: as JSON, or as tables that say where they were measured."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ithaca.cli.output import emit_json, note
from ithaca.cli.progress import status_line


def measured(
    run: Callable[..., dict[str, Any]],
    directory: Path,
    settings: object,
    as_json: bool,
    plot: Path | None = None,
    draw: Callable[[dict[str, Any], Path], None] | None = None,
) -> dict[str, Any]:
    """The report of a measurement, drawn if asked for; empty if it was printed as JSON already."""
    if plot is not None:
        from ithaca.bench.experiments.plot import check_can_plot

        check_can_plot()
    with status_line() as progress:
        report = run(directory, settings, progress)
    if plot is not None and draw is not None:
        draw(report, plot)
        note(f"drawn into {plot}")
    if as_json:
        emit_json(report)
        return {}
    print_surroundings(report)
    return report


def print_table(title: str, contenders: dict[str, Any]) -> None:
    """Rates and latencies, a row for each."""
    from rich.console import Console

    from ithaca.bench.measure import rate_table

    Console(width=140).print(rate_table(title, contenders))


def print_surroundings(report: dict[str, Any]) -> None:
    settings = report["settings"]
    print(f"file system {settings['file_system']}, {settings['cores']} cores, Python {settings['python']}")


def print_rates(report: dict[str, Any], as_json: bool) -> None:
    """Rates and latencies of every contender, and what was drawn."""
    if as_json:
        emit_json(report)
        return
    from rich.console import Console

    from ithaca.bench.measure import rate_table

    settings = report["settings"]
    print_surroundings(report)
    console = Console(width=None if sys.stdout.isatty() else 140)
    title = f"{report['bench']}: batches of {settings['batch']} records of {settings['record_bytes']} bytes"
    console.print(rate_table(title, report["contenders"]))
    if report.get("reads"):
        console.print(rate_table("reading, from the page cache", report["reads"]))
    for name, shares in report.get("compared", {}).items():
        for ceiling, share in shares.items():
            print(f"{name} / {ceiling}: {_in_words(share)}")
    for name, outcome in report.get("profiles", {}).items():
        print(f"profile of {name}: {outcome}")


def _in_words(share: dict[str, Any]) -> str:
    """Medians, and the rounds they are of.

    >>> _in_words({"rate": 0.5, "rounds": {"rate": [0.4, 0.5, 0.6]}})
    'rate 0.50 (0.40 0.50 0.60)'
    """
    names = {"rate": "rate", "latency_p50": "p50"}
    return ", ".join(
        f"{names[which]} {share[which]:.2f} ({' '.join(f'{each:.2f}' for each in rounds)})"
        for which, rounds in share["rounds"].items()
    )


def print_memory(report: dict[str, Any], as_json: bool) -> None:
    """Of the embedded log: private memory early and at the end."""
    if as_json:
        emit_json(report)
        return
    print_surroundings(report)
    print(
        f"private memory: {report['baseline_rss_anon_bytes'] / 1e6:.1f} MB "
        f"after {report['baseline_at_bytes'] / 1e9:.2f} GB, {report['end_rss_anon_bytes'] / 1e6:.1f} MB "
        f"after {report['end_at_bytes'] / 1e9:.2f} GB ({report['growth_bytes'] / 1e6:+.1f} MB), "
        f"at most {report['peak_rss_anon_bytes'] / 1e6:.1f} MB"
    )


def print_cluster_memory(report: dict[str, Any], as_json: bool) -> None:
    """Of every server: the peak of its private memory, early and over the whole run."""
    if as_json:
        emit_json(report)
        return
    print_surroundings(report)
    print(
        f"{report['end_at_bytes'] / 1e9:.2f} GB appended at {report['bytes_per_s'] / 1e6:.1f} MB/s, "
        f"{report['records_followed']:,} records followed; peaks of private memory:"
    )
    for name, held in report["servers"].items():
        print(
            f"  {name}: {held['early_peak_rss_anon_bytes'] / 1e6:.1f} MB by {report['early_at_bytes'] / 1e9:.2f} GB, "
            f"{held['peak_rss_anon_bytes'] / 1e6:.1f} MB by the end"
        )
