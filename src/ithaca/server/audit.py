"""Who came, who was refused, and what was changed: one line of JSON for each, in a file apart from the server's log.

```
{"time":"2026-01-31T12:00:00.000123Z","server":"orderer-1","event":"login","who":"user alice of bank",
 "from":"10.0.0.7:52100","role":"client"}
```

`who` is what the certificate says, or whose token it was, null without either. `denied` is a request that somebody had
no right to, with `error` and `why`. `refused` has `error` and `why`; `asked` has `request` and
`fields`, and is written before anything is done about it. A line that cannot be written is told in the server's log,
and the server goes on.
"""

import logging
import os
from datetime import UTC, datetime
from typing import Any

import msgspec

from ithaca.model.config.audit import ClusterAudit
from ithaca.model.errors import ConfigError, IthacaError
from ithaca.model.limits import AUDIT_TEXT_CHARACTERS_MAX
from ithaca.protocol.codec import Message
from ithaca.protocol.greeting import Hello
from ithaca.protocol.users import ChangeUsers, shown_changes
from ithaca.runtime.connection import Connection
from ithaca.runtime.machine import wall_us

_log = logging.getLogger("ithaca.audit")


class AuditLog:
    """The lines of one server. Files have mode 0600, in a directory of mode 0700."""

    def __init__(self, settings: ClusterAudit, server: str) -> None:
        """`ConfigError` when nothing can be written there."""
        self._settings = settings
        self._server = server
        self._path = settings.of_server(server)
        try:
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
            self._append(b"")
        except OSError as error:
            raise ConfigError(f"the audit cannot be written to {self._path}: {error.strerror}") from error

    def login(self, connection: Connection, hello: Hello) -> None:
        """Somebody said hello, and was let in."""
        self._write("login", connection, {"role": hello.role, "name": hello.name})

    def refused(self, connection: Connection, error: IthacaError) -> None:
        """A connection was ended by this side."""
        self._write("refused", connection, {"error": type(error).__name__, "why": _shortened(str(error))})

    def asked(self, connection: Connection, message: Message) -> None:
        """A client asks for something that changes the cluster, or takes from the log."""
        said = shown_changes(message) if isinstance(message, ChangeUsers) else msgspec.structs.asdict(message)
        fields = _shortened(msgspec.json.encode(said, enc_hook=str).decode())
        self._write("asked", connection, {"request": type(message).__name__, "fields": fields})

    def denied(self, connection: Connection, message: Message, error: IthacaError) -> None:
        """A client asks for something that it has no right to; the connection goes on."""
        more = {"request": type(message).__name__, "error": type(error).__name__, "why": _shortened(str(error))}
        self._write("denied", connection, more)

    def _write(self, event: str, connection: Connection, more: dict[str, Any]) -> None:
        time = datetime.fromtimestamp(wall_us() / 1e6, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        caller = connection.caller
        by_token = None if caller is None or not caller.name else f"user {caller.name} by token"
        who = by_token if connection.identity is None else str(connection.identity)
        line = {"time": time, "server": self._server, "event": event, "who": who, "from": connection.name, **more}
        data = msgspec.json.encode(line) + b"\n"
        try:
            if self._size() + len(data) > self._settings.file_bytes:
                self._put_aside()
            self._append(data)
        except OSError as error:
            _log.error("the audit cannot be written to %s: %s", self._path, error.strerror)

    def _append(self, data: bytes) -> None:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, data)
        finally:
            os.close(descriptor)

    def _size(self) -> int:
        try:
            return os.stat(self._path).st_size
        except FileNotFoundError:
            return 0

    def _put_aside(self) -> None:
        """Make room for a new file; the oldest one goes."""
        names = [self._path, *(f"{self._path}.{number}" for number in range(1, self._settings.files))]
        if len(names) == 1:
            os.truncate(self._path, 0)
        for older, newer in zip(reversed(names), reversed(names[:-1]), strict=False):
            if os.path.exists(newer):
                os.replace(newer, older)


def _shortened(text: str) -> str:
    """Text that one line takes, without the halves of surrogate pairs that peers and file names may bring."""
    plain = text.encode("utf-8", "backslashreplace").decode()
    return plain if len(plain) <= AUDIT_TEXT_CHARACTERS_MAX else plain[:AUDIT_TEXT_CHARACTERS_MAX] + "..."
