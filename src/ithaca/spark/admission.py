"""How much one trigger takes: so many records, or about so many bytes. Only the driver's handle is asked."""

from collections.abc import Callable, Sequence

from ithaca.model.errors import PositionError
from ithaca.model.interface import Log
from ithaca.spark.limits import SPARK_SIZE_SAMPLES


def admitted(start: int, tail: int, *, records: int | None, size: Callable[[int], int], byte_count: int | None) -> int:
    """Where a trigger ends that starts here; at least one record goes, or nothing would ever.

    `size` tells how large the record at a position is.
    """
    stop = tail if records is None else min(tail, start + records)
    if byte_count is None or stop - start <= 1:
        return stop
    return max(start + 1, _within(start, stop, byte_count, size))


def _within(start: int, stop: int, byte_count: int, size: Callable[[int], int]) -> int:
    """About how far the bytes reach: records are looked at here and there, and count for their neighbours.

    The look is repeated within what seems to fit, so that small records far away do not speak for large ones here.
    """
    for _ in range(4):
        samples = _spread(start, stop)
        sizes = [size(sample) for sample in samples]
        end = _reach(start, stop, byte_count, samples, sizes)
        if stop - start <= 2 * (end - start) or end - start <= SPARK_SIZE_SAMPLES:
            return end
        stop = start + 2 * (end - start)
    return end


def _spread(start: int, stop: int) -> list[int]:
    count = min(stop - start, SPARK_SIZE_SAMPLES)
    return [start + (stop - start) * index // count for index in range(count)]


def _reach(start: int, stop: int, byte_count: int, samples: Sequence[int], sizes: Sequence[int]) -> int:
    """The position at which the estimated bytes from `start` on are spent."""
    left = byte_count
    for sample, end, size in zip(samples, [*samples[1:], stop], sizes, strict=True):
        stretch_bytes = (end - sample) * size
        if stretch_bytes > left:
            return max(start + 1, sample + left // max(size, 1))
        left -= stretch_bytes
    return stop


def size_of(log: Log, position: int) -> int:
    """Bytes of the key and the value at a position; 0 where there is nothing to read any more."""
    try:
        record = log.read(position)
    except PositionError:
        return 0
    return len(record.value) + len(record.key or b"")
