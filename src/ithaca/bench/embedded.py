"""`ithaca bench embedded`: the embedded log against the bare file, interleaved in one run.

Writing: the log on recycled segments against a prewritten file, the log on fresh segments against a growing
file. Reading, from the page cache: records of a range, records of a subscription, against bare reads.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from shutil import rmtree
from typing import Any

import ithaca
from ithaca.bench.bare import KINDS, BareFile, CeilingSettings, bare_contender, batches_of, values_of
from ithaca.bench.measure import (
    Budget,
    Latency,
    Progress,
    Sample,
    in_threads,
    interleave,
    ratios,
    repeat,
    repeat_ahead,
    summarize,
)
from ithaca.bench.place import surroundings, workspace
from ithaca.model.interface import Log, Pending
from ithaca.model.limits import MIB, READ_CHUNK_BYTES
from ithaca.model.records import Compression, Durability, Receipt

KEPT_SEGMENTS = 2
"""What the recycling log keeps, about."""
WARM_UP_SEGMENTS = 3 * KEPT_SEGMENTS
"""What it writes before it is measured, so that from then on it writes over trimmed segments."""
PEERS = {"log, recycled": "bare, prewritten", "log, fresh": "bare, append"}
READ_PEERS = {"read_range": "bare pread", "subscribe": "bare pread"}


@dataclass(frozen=True, slots=True)
class EmbeddedSettings:
    """With more threads than one, each appends its own batches to the same log, and as many write to the bare file.

    With a window above one, each thread submits so many batches before it waits for the oldest. The bare file has
    no such choice: there is one write and sync at a time in either case, the log's by its disk thread.
    """

    record_bytes: int = 4096
    batch: int = 64
    seconds: float = 2.0
    rounds: int = 5
    durability: Durability = "fsync"
    compression: Compression = "none"
    threads: int = 1
    window: int = 1
    read: bool = True
    read_bytes: int = 256 * MIB
    segment_bytes: int = 64 * MIB


def run_embedded(parent: Path, settings: EmbeddedSettings, progress: Progress) -> dict[str, Any]:
    """Everything the settings ask for, as one JSON-ready report."""
    with workspace(parent) as directory:
        setting = asdict(settings) | surroundings(directory)
        writes = _measure_writes(directory, settings, progress)
        reads = _measure_reads(directory, settings, progress) if settings.read else {}
    contenders = _report(writes, PEERS, with_latency=True)
    main = {key: value for key, value in contenders["log, recycled"].items() if key != "rounds"}
    read_report = _report(reads, READ_PEERS, with_latency=False)  # a chunk, a first record, a poll: no comparison
    return {"bench": "embedded", **main, "contenders": contenders, "reads": read_report, "settings": setting}


def _report(
    samples: dict[str, list[Sample]], peers: dict[str, str], *, with_latency: bool
) -> dict[str, dict[str, Any]]:
    report = {name: summarize(of_one) for name, of_one in samples.items()}
    for name, ceiling in peers.items():
        if name in samples:
            share = ratios(samples[name], samples[ceiling], with_latency=with_latency)
            report[name]["ratios"] = {"to": ceiling, **share}
    return report


def _measure_writes(directory: Path, settings: EmbeddedSettings, progress: Progress) -> dict[str, list[Sample]]:
    values = values_of(settings.record_bytes, settings.batch)
    with ExitStack() as stack:
        contenders: dict[str, Callable[[], Sample]] = {}
        for kind in KINDS:
            contenders[f"bare, {kind}"] = _bare(stack, directory, settings, kind)
        progress("filling a log until it writes over trimmed segments")
        recycled = stack.enter_context(open_recycling(directory / "recycled", settings))
        contenders["log, recycled"] = lambda: measure_appends(recycled, values, settings, recycle=True)
        contenders["log, fresh"] = lambda: _measure_fresh(directory / "fresh", values, settings)
        return interleave(contenders, settings.rounds, progress)


def _bare(stack: ExitStack, directory: Path, settings: EmbeddedSettings, kind: str) -> Callable[[], Sample]:
    bare = CeilingSettings(
        record_bytes=settings.record_bytes,
        batch=settings.batch,
        seconds=settings.seconds,
        file_bytes=settings.segment_bytes,
        durability=settings.durability,
    )
    file = BareFile(directory / f"bare-{kind}", kind, bare)
    stack.callback(file.close)
    return bare_contender(file, batches_of(bare.batch_bytes), bare, settings.threads)


def open_recycling(path: Path, settings: EmbeddedSettings) -> Log:
    """A log that has been trimmed, and has segments to write over."""
    log = ithaca.open(
        path,
        durability=settings.durability,
        compression=settings.compression,
        segment_bytes=settings.segment_bytes,
    )
    # Large batches of the same records: a lone record per sync would take minutes to fill segments.
    wide = replace(settings, batch=max(1, min(MIB, settings.segment_bytes // 4) // settings.record_bytes))
    values = values_of(wide.record_bytes, wide.batch)
    for turn in range(WARM_UP_SEGMENTS * settings.segment_bytes // (wide.batch * wide.record_bytes)):
        trim_behind(log, log.append_many(values[turn % len(values)]), wide)
    assert log.first() > 1, "the warm-up must trim, or nothing is recycled"
    return log


def trim_behind(log: Log, receipt: Receipt, settings: EmbeddedSettings) -> None:
    """Once per segment's worth of records, give up what is older than the segments to be kept.

    Retention does the same on a schedule of seconds, which at these rates is many segments too late.
    """
    segment_records = settings.segment_bytes // settings.record_bytes
    if receipt.position % segment_records < receipt.count and receipt.position > KEPT_SEGMENTS * segment_records:
        log.trim(receipt.position - KEPT_SEGMENTS * segment_records)


def _measure_fresh(path: Path, values: list[list[bytes]], settings: EmbeddedSettings) -> Sample:
    # What the last round wrote goes only now, as the bare file's does: a machine whose host takes free memory back
    # would have one of them fetch all its pages again, and the other write to those that it just had.
    rmtree(path, ignore_errors=True)
    with ithaca.open(
        path,
        durability=settings.durability,
        compression=settings.compression,
        segment_bytes=settings.segment_bytes,
    ) as log:
        return measure_appends(log, values, settings)


def measure_appends(
    log: Log, values: list[list[bytes]], settings: EmbeddedSettings, *, recycle: bool = False
) -> Sample:
    """Append batches from every thread until the time is up."""
    budget = Budget(settings.seconds)

    def behind(receipt: Receipt) -> None:
        if recycle:
            trim_behind(log, receipt, settings)

    def append(turn: int) -> None:
        batch = values[turn % len(values)]
        behind(log.append(batch[0]) if settings.batch == 1 else log.append_many(batch))

    def submit(turn: int) -> Pending:
        batch = values[turn % len(values)]
        return log.submit(batch[0]) if settings.batch == 1 else log.submit_many(batch)

    def measure() -> Sample:
        if settings.window == 1:
            return repeat(append, settings.batch, settings.record_bytes, budget)
        return repeat_ahead(settings.window, submit, behind, settings.batch, settings.record_bytes, budget)

    return in_threads(settings.threads, measure)


def _measure_reads(directory: Path, settings: EmbeddedSettings, progress: Progress) -> dict[str, list[Sample]]:
    progress("writing what is read back")
    path = directory / "read"
    with ithaca.open(path, durability="os", compression=settings.compression) as log:
        values = values_of(settings.record_bytes, settings.batch)
        for turn in range(max(1, settings.read_bytes // (settings.batch * settings.record_bytes))):
            log.append_many(values[turn % len(values)])
    with ithaca.open(path, mode="r") as log:
        files = [file for file in path.rglob("*") if file.is_file()]
        contenders: dict[str, Callable[[], Sample]] = {
            "bare pread": lambda: _read_bare(files),
            "read_range": lambda: _read_range(log, settings.record_bytes),
            "subscribe": lambda: _subscribe(log, settings.record_bytes),
        }
        for contender in contenders.values():
            contender()  # from now on everything is in the page cache
        return interleave(contenders, settings.rounds, progress)


def _read_bare(files: list[Path]) -> Sample:
    """All bytes of the log's files, in chunks."""
    durations: list[float] = []
    total = 0
    started = now = time.perf_counter()
    for path in files:
        with path.open("rb", buffering=0) as file:
            while chunk := file.read(READ_CHUNK_BYTES):
                total += len(chunk)
                then, now = now, time.perf_counter()
                durations.append(now - then)
    return Sample(len(durations), total, time.perf_counter() - started, Latency.of(durations))


def _read_range(log: Log, record_bytes: int) -> Sample:
    """Every record, decoded; the latency is the time to the first."""
    started = time.perf_counter()
    with log.read_range(log.first()) as records:
        next(records)
        first_s = time.perf_counter() - started
        count = 1 + sum(1 for _ in records)
    return Sample(count, count * record_bytes, time.perf_counter() - started, Latency.of([first_s]))


def _subscribe(log: Log, record_bytes: int) -> Sample:
    """The same records through a subscription; the latency is that of a poll."""
    durations: list[float] = []
    count, total = 0, log.tail() - log.first()
    started = now = time.perf_counter()
    with log.subscribe("earliest") as subscription:
        while count < total:
            count += len(subscription.poll(timeout=None))
            then, now = now, time.perf_counter()
            durations.append(now - then)
    return Sample(count, count * record_bytes, now - started, Latency.of(durations))
