"""Which files protect a link, and prove who this side is."""

import os
from dataclasses import dataclass
from typing import Final

from ithaca.model.errors import InvalidInput
from ithaca.model.paths import AnyPath, local_path

AUTHORITY: Final = "ITHACA_TLS_AUTHORITY"
CERTIFICATE: Final = "ITHACA_TLS_CERTIFICATE"
KEY: Final = "ITHACA_TLS_KEY"
VARIABLES: Final = (AUTHORITY, CERTIFICATE, KEY)


@dataclass(frozen=True, slots=True)
class TLS:
    """Files in PEM format. They are read again when they change: nothing has to be restarted.

    `authority` holds the certificates of those whose word is taken for who the other side is. `certificate` (with the
    chain behind it) and `key` prove who this side is; without them it is nobody in particular. Only the owner and the
    group of a key's file may be able to read it.

    >>> TLS("ca.pem", certificate="alice.pem", key="alice.key")
    TLS(authority='ca.pem', certificate='alice.pem', key='alice.key')
    """

    authority: AnyPath
    certificate: AnyPath | None = None
    key: AnyPath | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "authority", local_path(self.authority, "authority"))
        for name in ("certificate", "key"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, local_path(getattr(self, name), name))
        if (self.certificate is None) != (self.key is None):
            missing = "key" if self.key is None else "certificate"
            raise InvalidInput(f"tls has no {missing}: a certificate and its key are given together, or neither is")

    @property
    def files(self) -> tuple[str, ...]:
        """All that are read."""
        return tuple(str(each) for each in (self.authority, self.certificate, self.key) if each is not None)


def tls_from_environment() -> TLS | None:
    """What `ITHACA_TLS_AUTHORITY`, `ITHACA_TLS_CERTIFICATE` and `ITHACA_TLS_KEY` say; None when they say nothing."""
    authority, certificate, key = (os.environ.get(name) or None for name in VARIABLES)
    if authority is None:
        if certificate is not None or key is not None:
            raise InvalidInput(f"{CERTIFICATE} or {KEY} is set, and {AUTHORITY} is not: it says whom to trust")
        return None
    return TLS(authority, certificate, key)


def checked_tls(tls: TLS | None) -> TLS | None:
    """The argument of `connect`, else what the environment says; `InvalidInput` for what is no `TLS`.

    >>> checked_tls(True)
    Traceback (most recent call last):
        ...
    ithaca.model.errors.InvalidInput: tls is True: use ithaca.TLS(authority="ca.pem")
    """
    if tls is None:
        return tls_from_environment()
    if not isinstance(tls, TLS):
        raise InvalidInput(f'tls is {tls!r}: use ithaca.TLS(authority="ca.pem")')
    return tls
