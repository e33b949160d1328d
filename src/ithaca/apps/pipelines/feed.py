"""Producers: each source appends its records under a session of its own, in a thread of its own."""

import threading
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from types import TracebackType
from typing import Self

import ithaca
from ithaca.apps.demo_cast import DemoFailed
from ithaca.apps.pipelines.events import Event

BATCH_RECORDS = 200
"""Appended at once; fewer, and the sources' records are mixed more finely."""
WAIT_S = 120.0
"""If nothing was acknowledged for so long, the feed is taken to be stuck."""


class Feed:
    """Appends until the sources have no more; leaving the context stops it.

    With `hold_at`, the sources wait when so many records are acknowledged, until they are told to go on.
    """

    def __init__(
        self,
        bootstrap: str,
        sources: Mapping[int, Iterator[Event]],
        batch_records: int = BATCH_RECORDS,
        hold_at: int | None = None,
    ) -> None:
        self._bootstrap = bootstrap
        self._batch_records = batch_records
        self._changed = threading.Condition()
        self._hold_at = hold_at
        self._stopped = False
        self._failure: BaseException | None = None
        self._running = len(sources)
        self.acknowledged = 0
        self._threads = [
            threading.Thread(target=self._run, args=(source, events), name=f"source-{source}", daemon=True)
            for source, events in sources.items()
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(WAIT_S)

    def go_on(self) -> None:
        """Hold nothing back any more."""
        with self._changed:
            self._hold_at = None
            self._changed.notify_all()

    def wait_for(self, records: int) -> None:
        """Until so many records are acknowledged, or all that there are."""
        self._wait(lambda: self.acknowledged >= records or self._running == 0)

    def finish(self) -> None:
        """Until everything is acknowledged."""
        self._wait(lambda: self._running == 0)

    def _wait(self, is_done: Callable[[], bool]) -> None:
        with self._changed:
            while self._failure is None and not is_done():
                if not self._changed.wait(WAIT_S):
                    raise DemoFailed(f"nothing was acknowledged for {WAIT_S:.0f} s")
        if self._failure is not None:
            raise DemoFailed(f"a source could not append: {self._failure}") from self._failure

    def _run(self, source: int, events: Iterator[Event]) -> None:
        failure = None
        try:
            self._append(source, events)
        except Exception as error:
            failure = error
        with self._changed:
            self._running -= 1
            self._failure = self._failure or failure
            self._changed.notify_all()

    def _append(self, source: int, events: Iterator[Event]) -> None:
        with ithaca.connect(self._bootstrap, shard_policy=lambda key, shards: shards[source % len(shards)]) as log:
            session = log.session(f"source-{source}")
            while self._may_go_on() and (batch := list(islice(events, self._batch_records))):
                receipt = session.append_many([value for _, value in batch], keys=[key for key, _ in batch])
                with self._changed:
                    self.acknowledged += receipt.count
                    self._changed.notify_all()

    def _may_go_on(self) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or self._hold_at is None or self.acknowledged < self._hold_at)
            return not self._stopped
