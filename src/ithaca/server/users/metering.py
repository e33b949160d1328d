"""How much a user uses of one server, and when it may go on."""

from typing import Final

from ithaca.model.errors import Overloaded
from ithaca.model.security.users import UserLimits
from ithaca.users.bucket import Bucket

_NO_LIMITS: Final = UserLimits()


class Meter:
    """The connections, requests and bytes of one user. Its limits may change at any time."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_limited = False
        """Whether requests and bytes have to be counted."""
        self.connections = 0
        self.inflight_bytes = 0
        """Of requests that were not answered yet."""
        self._limits = _NO_LIMITS
        self._requests: Bucket | None = None
        self._bytes: Bucket | None = None

    def limit(self, limits: UserLimits, now_s: float) -> None:
        """These are its limits from now on. A rate that is another one begins again, and owes nothing."""
        self._limits = limits
        self.is_limited = bool(limits.requests_per_s or limits.bytes_per_s or limits.inflight_bytes)
        self._requests = _bucket(self._requests, limits.requests_per_s, now_s)
        self._bytes = _bucket(self._bytes, limits.bytes_per_s, now_s)

    def connect(self) -> None:
        """One connection more; `Overloaded` if that is too many."""
        most = self._limits.connections
        if most and self.connections >= most:
            raise Overloaded(
                f"user {self.name} has {self.connections} connections to this server, and may have {most}: "
                "close some, or share a handle",
                retry_after_ms=1000,
            )
        self.connections += 1

    def request(self, size: int, now_s: float) -> None:
        """One request more, of so many bytes; `Overloaded` says when to try again."""
        most = self._limits.inflight_bytes
        if most and self.inflight_bytes and self.inflight_bytes + size > most:
            raise Overloaded(
                f"{self.inflight_bytes} bytes of user {self.name} wait to be answered, and {most} may: "
                "wait for some answers",
                retry_after_ms=100,
            )
        for bucket, what in ((self._requests, "requests"), (self._bytes, "bytes")):
            wait_s = 0.0 if bucket is None else bucket.wait_s(now_s)
            if bucket is not None and wait_s > 0:
                raise Overloaded(
                    f"user {self.name} may use {bucket.rate:.0f} {what} a second of this server: try again in "
                    f"{wait_s:.3f} s",
                    retry_after_ms=int(wait_s * 1000) + 1,
                )
        if self._requests is not None:
            self._requests.take(1, now_s)
        self.sent(size, now_s)

    def sent(self, size: int, now_s: float) -> None:
        """So many bytes went one way or the other."""
        if self._bytes is not None:
            self._bytes.take(size, now_s)

    def wait_s(self, now_s: float) -> float:
        """How long to wait before anything more is sent to it."""
        return 0.0 if self._bytes is None else self._bytes.wait_s(now_s)


def _bucket(bucket: Bucket | None, rate: int, now_s: float) -> Bucket | None:
    if not rate:
        return None
    return bucket if bucket is not None and bucket.rate == rate else Bucket(rate, now_s)
