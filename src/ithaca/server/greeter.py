"""What a server says of itself first, to whoever it dials and to whoever dials it, and how it proves that."""

from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from ithaca.model.config.cluster import ClusterFile
from ithaca.model.errors import ConfigError, IthacaError
from ithaca.model.security.identity import server_name
from ithaca.protocol.greeting import FEATURES, INSECURE, VERSION_MAX, VERSION_MIN, Hello, Role, Welcome
from ithaca.runtime.dialling import Introduction
from ithaca.runtime.listener import Guard
from ithaca.runtime.machine import monotonic_s
from ithaca.server.audit import AuditLog
from ithaca.server.users.gate import UserGate
from ithaca.server.users.login import Logins
from ithaca.server.users.rules import RULES, WORDING, Rules, Wording


class Greeter:
    """The greetings of one server."""

    def __init__(
        self,
        file: ClusterFile,
        role: Role,
        name: str,
        log: Callable[[], UUID | None] = lambda: None,
        *,
        certified: str | None = None,
    ) -> None:
        """`log` is the log that it belongs to, once that is known. `certified` is what its certificate calls it, where
        that is not what it is: a spare that has become a replica."""
        self._file = file
        self._role: Role = role
        self._name = name
        self._log = log
        self._server = certified or server_name(role, name)
        self._tls = None if file.tls is None else file.tls.of_server(self._server)
        self._secret = file.client_token

    def hello(self) -> Introduction:
        """To whoever it dials."""
        file = self._file
        proof = b"" if self._secret is None else self._secret.encode()
        hello = Hello(
            VERSION_MIN, VERSION_MAX, self._role, self._name, FEATURES, self._log(), proof, engine=file.engine
        )
        if file.tls is None or file.tls.mode == "offered":
            return Introduction(hello)
        return Introduction(hello, self._tls, file.name)

    @property
    def guard(self) -> Guard | None:
        """Whom it lets in."""
        if self._file.tls is None or self._tls is None:
            return None
        tls = self._file.tls
        return Guard(self._tls, self._file.name, tls.mode == "required", tls.clients == "known")

    def audit(self) -> AuditLog | None:
        """Where it writes down who comes; `ConfigError` when nothing can be written there."""
        return None if self._file.audit is None else AuditLog(self._file.audit, self._server)

    def gate(
        self,
        rules: Rules = RULES,
        wording: Wording = WORDING,
        audit: AuditLog | None = None,
        refused: Callable[[IthacaError], None] | None = None,
        *,
        knows_users: bool = True,
    ) -> UserGate | None:
        """Who says what clients may do, by these rules; None where the cluster has no users."""
        file = self._file
        if file.users is None:
            return None
        return UserGate(
            Logins(file.name, self._secret, monotonic_s()),
            file.name,
            rules,
            wording,
            are_servers_certified=file.are_servers_certified,
            knows_users=knows_users,
            audit=audit,
            refused=refused,
        )

    def check_users(self, gate: UserGate | None) -> None:
        """`ConfigError` where the cluster has users, and a server does not look at what they may do."""
        if self._file.users is not None and gate is None:
            raise ConfigError(
                f"[users] is in the cluster's file, and the engine {self._file.engine} cannot hold users to their "
                "rights: use another engine, or remove it"
            )

    def told(self, status: Mapping[str, Any]) -> Mapping[str, Any]:
        """A status with what is to be known of the whole cluster: that everybody is let in."""
        return status if not self._file.is_open else {**status, "insecure": True}

    def welcome(self) -> Welcome:
        """To whoever dials it."""
        file = self._file
        features = (*FEATURES, INSECURE) if file.is_open else FEATURES
        return Welcome(
            VERSION_MAX, self._role, self._name, features, self._log(), durability=file.durability, engine=file.engine
        )
