"""A streaming query on a machine that is busy.

Spark gives the Python process of a stream's source ten seconds to start, and fails the query otherwise; that limit is
no setting. A query goes on from its checkpoint when it is started again, so this is done, a few times, and said. Any
other failure is raised as it is.
"""

from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

STARTS_MAX: Final = 6
_TOO_SLOW: Final = "Python worker failed to connect back"


class PatientQuery:
    """Runs while the context is entered; `start` starts the query, and again from its checkpoint."""

    def __init__(self, start: Callable[[], StreamingQuery], say: Callable[[str], None]) -> None:
        self._start = start
        self._say = say
        self._starts = 0

    def __enter__(self) -> Self:
        self._start_once_more()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._query.stop()

    def check(self) -> None:
        """Raise what ended the query, unless it is worth another start."""
        failure = self._query.exception()
        if failure is not None:
            self._again_or_raise(failure)

    def process_all(self) -> None:
        """Wait until everything is processed that the log has now."""
        while True:
            try:
                self._query.processAllAvailable()
            except StreamingQueryException as failure:
                self._again_or_raise(failure)
            else:
                return

    def _again_or_raise(self, failure: StreamingQueryException) -> None:
        if _TOO_SLOW not in str(failure) or self._starts == STARTS_MAX:
            raise failure
        self._say("   a process of Spark's took longer than 10 s to start: the stream goes on from its checkpoint")
        self._start_once_more()

    def _start_once_more(self) -> None:
        self._starts += 1
        self._query = self._start()
