"""Synchronous iteration over the embedded log."""

import time
from collections.abc import Iterator

from ithaca.client.ahead_records import SyncAheadRecords
from ithaca.embedded.engine import Engine
from ithaca.embedded.scan import Scan
from ithaca.model import interface
from ithaca.model.errors import IthacaError
from ithaca.model.limits import FOLLOW_POLL_MS_MAX, FOLLOW_POLL_MS_MIN, POLL_RECORDS_MAX
from ithaca.model.records import Record, Start
from ithaca.model.units import Duration, seconds
from ithaca.runtime.checks import check_max_records, closed_subscription
from ithaca.runtime.read_ahead import ReadAhead
from ithaca.runtime.wakeup import Wakeup


class EmbeddedRecords(SyncAheadRecords[Scan]):
    """A bounded range."""

    def __init__(self, engine: Engine, scan: Scan) -> None:
        super().__init__(ReadAhead(scan))
        self._engine = engine

    def _bounds(self) -> tuple[str, int, Start | None]:
        return self._engine.path, self.position, self._ahead.source.stop_position

    def _has_more(self) -> bool:
        return self._advance(None)

    def batches(self) -> Iterator[interface.Batch]:
        self._ahead.rewind()
        while not self._closed:
            batch = self._ahead.next_batch()
            if batch is not None:
                yield batch
            elif not self._advance(None):
                return

    def take_batches(self, timeout: Duration | None = None) -> list[interface.Batch]:
        deadline_s = None if timeout is None else time.monotonic() + seconds(timeout)
        found = [] if self._closed else self._ahead.take_batches()
        while not found and self._advance(deadline_s):
            found = self._ahead.take_batches()
        return found

    def close(self) -> None:
        self._closed = True

    def _advance(self, deadline_s: float | None) -> bool:
        """Read on, waiting if this kind of iteration waits; False at the end."""
        if self._closed:
            return False
        self._engine.check()
        return self._ahead.fill()


class EmbeddedSubscription(EmbeddedRecords, interface.Subscription):
    """Without end: looks on when something was committed."""

    def __init__(self, engine: Engine, scan: Scan) -> None:
        super().__init__(engine, scan)
        self._wake = Wakeup()

    def close(self) -> None:
        super().close()
        self._wake.give()

    def poll(self, timeout: Duration | None = 0, max_records: int = POLL_RECORDS_MAX) -> list[Record]:
        check_max_records(max_records)
        deadline_s = None if timeout is None else time.monotonic() + seconds(timeout)
        if self._closed:
            raise closed_subscription()
        if max_records < 1:
            return []
        found = self._ahead.take(max_records, self._fills)
        while not found and self._advance(deadline_s):
            found = self._ahead.take(max_records, self._fills)
        if not found and self._closed:
            raise closed_subscription()
        return found

    def _fills(self) -> bool:
        try:
            return self._ahead.fill()
        except IthacaError:
            return False  # what was found before it is delivered first; the next call meets it again

    def _advance(self, deadline_s: float | None) -> bool:
        while not super()._advance(deadline_s):
            if self._closed or not self._await_more(deadline_s):
                return False
        return True

    def _await_more(self, deadline_s: float | None) -> bool:
        """Wait until there may be more to read; False when the time is up."""
        engine = self._engine
        lsn = self._ahead.source.lsn
        pause_s = None if engine.is_writer else FOLLOW_POLL_MS_MIN / 1000
        engine.add_listener(self._wake.give)
        try:
            while not self._closed:
                self._wake.clear()
                if engine.is_beyond(lsn):
                    return True
                left_s = None if deadline_s is None else deadline_s - time.monotonic()
                if left_s is not None and left_s <= 0:
                    return False
                self._wake.wait(min((seconds for seconds in (left_s, pause_s) if seconds is not None), default=None))
                if pause_s is not None:
                    pause_s = min(FOLLOW_POLL_MS_MAX / 1000, pause_s * 1.2)
            return False
        finally:
            engine.remove_listener(self._wake.give)
