"""TLS of one connection, between the bytes of its socket and those of its frames. It reads and writes no socket itself.

Whoever owns it hands over what came (`feed`), takes what is to be sent (`outgoing`), and reads what was meant
(`read_into`). What is written before the handshake is done waits for its end.
"""

import ssl
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from ithaca.model.errors import AuthenticationFailed, IthacaError, ProtocolError, Unavailable
from ithaca.model.records import Buffer
from ithaca.model.security.identity import Identity, identity_in

HANDSHAKE_BYTE: Final = 0x16
"""What TLS begins with. A frame begins with its length, and none that a hello may have ends in this byte: lengths are
multiples of 8."""
_BLOCK_BYTES: Final = 256 * 1024
_COPIED_BYTES_MAX: Final = 8 * 1024
"""Smaller buffers go together, so that a frame is few records of TLS; larger ones are encrypted from where they are."""
_blocks = threading.local()


def receive_block() -> memoryview:
    """Where bytes of a socket go before they are fed; shared by all connections of a thread, for they never wait."""
    block: memoryview | None = getattr(_blocks, "block", None)
    if block is None:
        block = _blocks.block = memoryview(bytearray(_BLOCK_BYTES))
    return block


class TlsLayer:
    """One side of a connection: the server's, unless there is the name of a host that the other side must prove."""

    def __init__(self, context: ssl.SSLContext, host: str | None = None) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_side=host is None, server_hostname=host)
        self._waiting: list[bytes] = []
        self.is_established = False
        self.is_over = False
        """Whether the other side has said that nothing more comes."""
        self.identity: Identity | None = None
        """Who the other side is, as its certificate says; known when the handshake is done."""

    def feed(self, data: Buffer) -> None:
        """These bytes came."""
        self._incoming.write(data)

    def advance(self) -> bool:
        """Go on with the handshake; whether it is done. `ssl.SSLError` when it has failed."""
        if not self.is_established:
            try:
                self._object.do_handshake()
            except ssl.SSLWantReadError:
                return False
            self.is_established = True
            self.identity = _identity_of(self._object)
        return True

    def release(self) -> None:
        """The other side is who it should be: what waited for that may go."""
        waiting, self._waiting = self._waiting, []
        self.write(waiting)

    def write(self, buffers: Sequence[Buffer]) -> None:
        """Have this sent."""
        if not self.is_established:
            self._waiting.append(b"".join(buffers))
            return
        small: list[Buffer] = []
        for buffer in buffers:
            if len(buffer) < _COPIED_BYTES_MAX:
                small.append(buffer)
                continue
            self._encrypt(b"".join(small))
            small.clear()
            self._encrypt(buffer)
        self._encrypt(b"".join(small))

    def _encrypt(self, data: Buffer) -> None:
        view = memoryview(data).cast("B")
        while len(view):
            view = view[self._object.write(view) :]

    def outgoing(self) -> bytes:
        """What is to be sent now."""
        return self._outgoing.read()

    def read_into(self, room: memoryview) -> int:
        """Fill the room with what was meant; returns how many bytes. Fewer than it has room for: there are no more."""
        count = 0
        try:
            # A read that finds nothing raises, which takes as long as one of a small message.
            while count < len(room) and (self._incoming.pending or self._object.pending()):
                size = self._object.read(len(room) - count, room[count:])
                if not size:
                    self.is_over = True
                    break
                count += int(size)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.is_over = True
        return count

    def finish(self) -> None:
        """Say that nothing more comes."""
        if self.is_established:
            with suppress(ssl.SSLError):  # the other side need not answer
                self._object.unwrap()


def _identity_of(connection: ssl.SSLObject) -> Identity | None:
    certificate = connection.getpeercert() or {}
    names = certificate.get("subjectAltName", ())
    return identity_in(str(each[1]) for each in names if isinstance(each, tuple) and each[0] == "URI")


_ALERTS: Final = (
    "CERTIFICATE_REQUIRED",
    "CERTIFICATE_EXPIRED",
    "CERTIFICATE_REVOKED",
    "CERTIFICATE_UNKNOWN",
    "BAD_CERTIFICATE",
    "UNSUPPORTED_CERTIFICATE",
    "UNKNOWN_CA",
    "ACCESS_DENIED",
    "DECRYPT_ERROR",
)


def tls_error(error: ssl.SSLError, other: str) -> IthacaError:
    """What went wrong, in words: `other` is the other side."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return AuthenticationFailed(f"{other} has not proved who it is: {error.verify_message}")
    reason = error.reason or str(error)
    for alert in _ALERTS:
        if reason.endswith(f"ALERT_{alert}"):
            return AuthenticationFailed(
                f"{other} does not accept this side's certificate: {alert.lower().replace('_', ' ')}"
            )
    if reason in ("WRONG_VERSION_NUMBER", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE", "UNEXPECTED_MESSAGE"):
        return ProtocolError(f"{other} does not speak TLS: {reason.lower().replace('_', ' ')}")
    if reason in ("NO_SHARED_CIPHER", "UNSUPPORTED_PROTOCOL", "NO_PROTOCOLS_AVAILABLE") or "ALERT_PROTOCOL" in reason:
        return ProtocolError(f"{other} and this side share no version of TLS: both need 1.3")
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return Unavailable(f"the connection to {other} has ended")
    return ProtocolError(f"TLS with {other} failed: {reason.lower().replace('_', ' ')}")
