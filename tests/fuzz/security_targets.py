"""What comes before anybody is known: the handshake of TLS, as the server takes it, and who certificates say one is."""

import ssl
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

from tests.fuzz.target import Target

from ithaca.cluster.certs.authority import Authority
from ithaca.model.errors import AuthenticationFailed, InvalidInput, ProtocolError, Unavailable
from ithaca.model.security.identity import Identity, identity_in
from ithaca.model.security.tls import TLS
from ithaca.runtime.tls.contexts import TlsContexts
from ithaca.runtime.tls.layer import TlsLayer, tls_error
from ithaca.users.tokens import Token, parse_token, token_text


@lru_cache(maxsize=1)
def _context() -> ssl.SSLContext:
    with tempfile.TemporaryDirectory(prefix="ithaca-fuzz-") as place:
        issued = Authority.make(Path(place), "bank").issue_server("bank", "orderer-1", ["127.0.0.1"])
        return TlsContexts(TLS(Path(place) / "ca.pem", issued.certificate, issued.key)).listening


def _client_hello() -> bytes:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    client = TlsLayer(context, "127.0.0.1")
    client.advance()
    return client.outgoing()


def _served(data: bytes) -> bool:
    """Whether the handshake is done after these bytes: never, since nobody can know the server's secrets beforehand."""
    server = TlsLayer(_context())
    try:
        server.feed(data)
        is_done = server.advance()
        assert server.read_into(memoryview(bytearray(4096))) == 0
    except ssl.SSLError as error:
        raise tls_error(error, "somebody") from error
    assert not is_done
    assert server.identity is None
    return is_done


def _identity(data: bytes) -> Identity | None:
    return identity_in([data.decode("latin-1")])


def _said(identity: Identity | None) -> bytes:
    return b"" if identity is None else identity.uri.encode()


def _token(data: bytes) -> Token:
    return parse_token(data.decode("latin-1"))


def _token_said(token: Token) -> bytes:
    return f"itk:{token.user}:{token.secret}".encode("latin-1")


TARGETS: tuple[Target[Any], ...] = (
    Target("tls_handshake", _served, (AuthenticationFailed, ProtocolError, Unavailable), (_client_hello(),)),
    Target(
        "identity",
        _identity,
        (),
        (b"ithaca://bank/orderer-1", b"ithaca://my%20bank/user/alice"),
        _said,
    ),
    Target("token", _token, (InvalidInput,), (token_text("alice", bytes(32)).encode(),), _token_said),
)
