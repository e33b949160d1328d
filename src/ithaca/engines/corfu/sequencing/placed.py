"""The last batches of sessions that a unit holds, whatever order they came in, and whether they were trimmed since."""

from bisect import insort
from collections import OrderedDict
from collections.abc import Iterable
from operator import attrgetter

import msgspec

from ithaca.engines.corfu.sequencing.entries import Stamp
from ithaca.engines.corfu.sequencing.limits import UNIT_SESSIONS_MAX
from ithaca.engines.corfu.sequencing.projection import Natural
from ithaca.model.limits import SESSION_BATCHES_MAX


class PlacedBatch(msgspec.Struct, frozen=True, array_like=True):
    """A batch of a session, and its row. The numbers of a session rise with its rows."""

    first_seq: Natural
    count: Natural
    row: Natural
    epoch: Natural
    """Of the session."""
    crc: Natural


class PlacedTable:
    """Of each session the batches with the highest numbers, as many as a retry may ask for."""

    def __init__(self, known: Iterable[tuple[int, list[PlacedBatch]]] = (), *, is_forgetful: bool = False) -> None:
        self._by_producer: OrderedDict[int, list[PlacedBatch]] = OrderedDict(known)
        self.is_forgetful = is_forgetful
        """Whether sessions were dropped: then one that is not known may have had batches here."""

    def add(self, row: int, stamp: Stamp) -> None:
        """A batch is in this row; the same again changes nothing."""
        self.put(stamp.producer, PlacedBatch(stamp.first_seq, stamp.count, row, stamp.epoch, stamp.crc))

    def put(self, producer: int, batch: PlacedBatch) -> None:
        """This batch of a session was placed; the same again changes nothing."""
        batches = self._by_producer.setdefault(producer, [])
        if batch not in batches:
            insort(batches, batch, key=attrgetter("row"))
            del batches[:-SESSION_BATCHES_MAX]
        self._by_producer.move_to_end(producer)
        if len(self._by_producer) > UNIT_SESSIONS_MAX:
            self._by_producer.popitem(last=False)
            self.is_forgetful = True

    def take(self, known: Iterable[tuple[int, Iterable[PlacedBatch]]], *, is_forgetful: bool) -> None:
        """Take in what another unit remembers."""
        self.is_forgetful = self.is_forgetful or is_forgetful
        for producer, batches in known:
            for batch in batches:
                self.put(producer, batch)

    def of(self, producer: int) -> tuple[PlacedBatch, ...]:
        return tuple(self._by_producer.get(producer, ()))

    def holds(self, row: int, stamp: Stamp) -> bool:
        """Whether this very batch was put into this row, as far as is remembered."""
        sought = PlacedBatch(stamp.first_seq, stamp.count, row, stamp.epoch, stamp.crc)
        return sought in self._by_producer.get(stamp.producer, ())

    def forget(self, producer: int) -> None:
        """The session has expired."""
        self._by_producer.pop(producer, None)

    def items(self) -> list[tuple[int, list[PlacedBatch]]]:
        """All of it, the session that was unused for longest first."""
        return [(producer, list(batches)) for producer, batches in self._by_producer.items()]
