"""`ithaca bench ceiling`: what this machine can do at all, with one file or with two replicas."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from ithaca.bench.bare import KINDS, BareFile, CeilingSettings, bare_contender, batches_of
from ithaca.bench.measure import Progress, Sample, interleave, summarize
from ithaca.bench.place import surroundings, workspace
from ithaca.bench.replicated import replicated_contenders


def run_ceiling(parent: Path, settings: CeilingSettings, progress: Progress) -> dict[str, Any]:
    """Both kinds of file, interleaved; with two replicas through sockets and processes."""
    with workspace(parent) as directory:
        setting = asdict(settings) | surroundings(directory)
        measure = _replicated if settings.replicas == 2 else _single
        samples = measure(directory, settings, progress)
    contenders = {kind: summarize(of_kind) for kind, of_kind in samples.items()}
    main = {key: value for key, value in contenders["prewritten"].items() if key != "rounds"}
    return {"bench": "ceiling", **main, "contenders": contenders, "settings": setting}


def _single(directory: Path, settings: CeilingSettings, progress: Progress) -> dict[str, list[Sample]]:
    batches = batches_of(settings.batch_bytes)
    files = {kind: BareFile(directory / kind, kind, settings) for kind in KINDS}
    try:
        contenders = {kind: bare_contender(file, batches, settings) for kind, file in files.items()}
        return interleave(contenders, settings.rounds, progress)
    finally:
        for file in files.values():
            file.close()


def _replicated(directory: Path, settings: CeilingSettings, progress: Progress) -> dict[str, list[Sample]]:
    with replicated_contenders(directory, settings) as contenders:
        return interleave(contenders, settings.rounds, progress)
