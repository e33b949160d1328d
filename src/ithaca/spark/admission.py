"""How much one trigger takes: so many records, or about so many bytes. Only the driver's handle is asked."""

from collections.abc import Callable

from ithaca.client.extents import Extent, dense_extents
from ithaca.engines.tasks import Extents
from ithaca.model.errors import EmptyPosition, PositionError
from ithaca.model.interface import Log
from ithaca.spark.limits import SPARK_SIZE_SAMPLES


def dense(start: int, stop: int, *, records_max: int, count_max: int | None = None) -> list[Extent]:
    """The records of a range in which every position holds one."""
    return dense_extents(start, stop, records_max, count_max)


def admitted(
    start: int,
    tail: int,
    *,
    records: int | None,
    size: Callable[[int], int],
    byte_count: int | None,
    extents: Extents = dense,
) -> int:
    """Where a trigger ends that starts here; at least one record goes, or nothing would ever.

    `size` tells how large the record at a position, or the next one, is; `extents` how many there are.
    """
    stop = tail if records is None else _behind(start, tail, records, extents)
    if byte_count is None or stop - start <= 1:
        return stop
    return _within(start, stop, byte_count, size, extents)


def _behind(start: int, stop: int, records: int, extents: Extents) -> int:
    """Where so many records end, or the range."""
    found = extents(start, stop, records_max=max(1, records), count_max=1)
    return found[0].stop if found else stop


def _within(start: int, stop: int, byte_count: int, size: Callable[[int], int], extents: Extents) -> int:
    """About how far the bytes reach: records are looked at here and there, and count for their neighbours.

    The look is repeated within what seems to fit, so that small records far away do not speak for large ones here.
    """
    end, total = start, sum(extent.records for extent in extents(start, stop, records_max=max(1, stop - start)))
    for _ in range(4):
        stretches = extents(start, stop, records_max=max(1, -(-total // SPARK_SIZE_SAMPLES)))
        fits, end = _reach(stretches, byte_count, [size(stretch.start) for stretch in stretches], extents)
        if total <= 2 * fits or fits <= SPARK_SIZE_SAMPLES:
            return end
        total = 2 * fits
        stop = _behind(start, stop, total, extents)
    return end


def _reach(stretches: list[Extent], byte_count: int, sizes: list[int], extents: Extents) -> tuple[int, int]:
    """How many records the bytes are for, at least one, and where those end."""
    left, fits = byte_count, 0
    for stretch, size in zip(stretches, sizes, strict=True):
        if stretch.records * size > left:
            more = max(0 if fits else 1, left // size)
            return fits + more, _behind(stretch.start, stretch.stop, more, extents) if more else stretch.start
        left -= stretch.records * size
        fits += stretch.records
    return fits, stretches[-1].stop


def size_of(log: Log, position: int) -> int:
    """Bytes of the key and the value at a position, or of the next record; 0 where there is nothing to read."""
    try:
        record = log.read(position)
    except EmptyPosition as error:
        return size_of(log, error.next) if error.next else 0
    except PositionError:
        return 0
    return len(record.value) + len(record.key or b"")
