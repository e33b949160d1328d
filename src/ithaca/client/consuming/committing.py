"""When a consumer commits by itself: after so many records, or after so much time. Pure."""

from ithaca.consumers.limits import CONSUMER_COMMIT_RECORDS_MAX
from ithaca.model.arguments import whole
from ithaca.model.units import Duration, seconds


class CommitRule:
    """Counts what was handed out since the last commit."""

    def __init__(self, records: int | None, every: Duration | None) -> None:
        if records is not None:
            whole(records, "commit_records", 1, CONSUMER_COMMIT_RECORDS_MAX)
        self._records = records
        self._every_s = None if every is None else seconds(every, "commit_s")
        self._count = 0
        self._since_s = 0.0

    @property
    def is_set(self) -> bool:
        """Whether it ever commits by itself."""
        return self._records is not None or self._every_s is not None

    def handed_out(self, count: int, now_s: float) -> None:
        """So many records more."""
        if not self._count:
            self._since_s = now_s
        self._count += count

    def is_due(self, now_s: float) -> bool:
        """Whether what was handed out, all of which is processed, is to be committed now."""
        if not self._count:
            return False
        if self._records is not None and self._count >= self._records:
            return True
        return self._every_s is not None and now_s - self._since_s >= self._every_s

    def due_in_s(self, now_s: float) -> float | None:
        """For how long nothing will be due by time alone; None for ever."""
        if self._every_s is None or not self._count:
            return None
        return max(0.0, self._since_s + self._every_s - now_s)

    def committed(self) -> None:
        """All that was handed out is committed."""
        self._count = 0
