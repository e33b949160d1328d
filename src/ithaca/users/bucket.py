"""How fast somebody may go on: a bucket that fills with time, and is emptied by what is done."""


class Bucket:
    """Holds what may be done in a second; what is too much at once is owed, and has to be waited for.

    >>> bucket = Bucket(100, 0.0)
    >>> bucket.wait_s(0.0), bucket.take(150, 0.0), bucket.wait_s(0.0), bucket.wait_s(1.0)
    (0.0, None, 0.5, 0.0)
    """

    __slots__ = ("_filled_s", "_holds", "rate")

    def __init__(self, rate: float, now_s: float) -> None:
        assert rate > 0
        self.rate = rate
        self._holds = float(rate)
        self._filled_s = now_s

    def wait_s(self, now_s: float) -> float:
        """How long to wait until something may be done; 0 for now."""
        self._fill(now_s)
        return 0.0 if self._holds >= 0 else -self._holds / self.rate

    def take(self, amount: float, now_s: float) -> None:
        """So much is done."""
        self._fill(now_s)
        self._holds -= amount

    def _fill(self, now_s: float) -> None:
        if now_s > self._filled_s:
            self._holds = min(self.rate, self._holds + (now_s - self._filled_s) * self.rate)
            self._filled_s = now_s
