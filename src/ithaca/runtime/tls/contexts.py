"""Files of certificates and keys as contexts of connections. A change is noticed with the next connection."""

import logging
import os
import ssl
import stat
from collections.abc import Callable
from functools import lru_cache
from typing import NoReturn

from ithaca.model.errors import ConfigError, InvalidInput
from ithaca.model.limits import TLS_CONTEXTS_MAX, TLS_LOOK_S
from ithaca.model.security.tls import TLS
from ithaca.runtime.machine import monotonic_s

_log = logging.getLogger("ithaca.tls")

_Signature = tuple[tuple[int, int, int], ...]


class TlsContexts:
    """What connections are made with that these files protect. Use `contexts_of`."""

    def __init__(self, tls: TLS) -> None:
        """`ConfigError` when the files are not there, or are not what they should be."""
        self._tls = tls
        self._seen = self._signature()
        self._dialling, self._listening = self._load()
        self._look_at = monotonic_s() + TLS_LOOK_S

    @property
    def dialling(self) -> ssl.SSLContext:
        """For connections that this side begins."""
        self._look()
        return self._dialling

    @property
    def listening(self) -> ssl.SSLContext:
        """For connections that others begin; `InvalidInput` without a certificate."""
        self._look()
        if self._listening is None:
            raise InvalidInput("a server needs a certificate and its key")
        return self._listening

    def _look(self) -> None:
        """Read the files again if they have changed. What cannot be read leaves things as they are: certificate and
        key may have been replaced one after the other."""
        now = monotonic_s()
        if now < self._look_at:
            return
        self._look_at = now + TLS_LOOK_S
        try:
            signature = self._signature()
            if signature == self._seen:
                return
            self._dialling, self._listening = self._load()
        except ConfigError as error:
            _log.error("the certificates in use are kept: %s", error)
            return
        self._seen = signature
        _log.info("certificates were read again: %s", ", ".join(self._tls.files))

    def _signature(self) -> _Signature:
        """What changes when one of the files does."""
        return tuple((found.st_mtime_ns, found.st_ino, found.st_size) for found in map(_stat, self._tls.files))

    def _load(self) -> tuple[ssl.SSLContext, ssl.SSLContext | None]:
        tls = self._tls
        dialling = self._context(ssl.PROTOCOL_TLS_CLIENT)
        if tls.certificate is None or tls.key is None:
            return dialling, None
        certificate, key = str(tls.certificate), str(tls.key)
        _refuse_public(key)
        listening = self._context(ssl.PROTOCOL_TLS_SERVER)
        listening.verify_mode = ssl.CERT_OPTIONAL  # whoever has none is nobody in particular
        listening.num_tickets = 0  # nobody resumes: each connection proves again who it is
        for context in (dialling, listening):
            try:
                context.load_cert_chain(certificate, key, _refusing_passphrases(key))
            except OSError as error:
                raise ConfigError(
                    f"{certificate} and {key} are no certificate in PEM format with its key: {_reason(error)}"
                ) from error
        return dialling, listening

    def _context(self, protocol: int) -> ssl.SSLContext:
        context, authority = ssl.SSLContext(protocol), str(self._tls.authority)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        try:
            context.load_verify_locations(authority)
        except OSError as error:
            raise ConfigError(f"{authority} holds no certificate in PEM format: {_reason(error)}") from error
        return context


@lru_cache(maxsize=TLS_CONTEXTS_MAX)
def contexts_of(tls: TLS) -> TlsContexts:
    """The contexts of these files, the same for everybody who names them."""
    return TlsContexts(tls)


def _stat(path: str) -> os.stat_result:
    try:
        return os.stat(path)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error


def _refuse_public(key: str) -> None:
    if stat.S_IMODE(_stat(key).st_mode) & (stat.S_IRWXO | stat.S_IWGRP):
        raise ConfigError(f"others may read or change the key {key}: say chmod 600 {key}")


def _refusing_passphrases(key: str) -> Callable[[], str]:
    """OpenSSL would ask for one at the terminal."""

    def refuse() -> NoReturn:
        raise ConfigError(f"the key {key} has a passphrase: keep it without, in a file of mode 600")

    return refuse


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.lower().replace("_", " ")
    return error.strerror or str(error)
