"""Trims behind the producers, so that disks do not fill and segments are written over."""

from collections.abc import Callable

from ithaca.model.interface import ClusterLog


class Trimmer:
    """Gives up what is older than the newest `kept_records`; called again and again while producers are at work.

    `position` tells where the newest is: the tail, or how far a follower has come. Retention trims on a
    schedule of seconds, which at these rates is many segments too late.
    """

    def __init__(self, log: ClusterLog, kept_records: int, position: Callable[[], int] | None = None) -> None:
        self._log = log
        self._kept = kept_records
        self._position = log.tail if position is None else position
        self._trimmed = 1

    def __call__(self) -> None:
        before = self._position() - self._kept
        if before - self._trimmed > self._kept // 4:  # a trim is an ordered entry: not one for every few records
            self._log.trim(before)
            self._trimmed = before
