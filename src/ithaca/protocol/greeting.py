"""What is said on every connection: who dials and who answers, what failed, how a server is."""

from typing import Annotated, Final, Literal
from uuid import UUID

import msgspec
from msgspec import Meta

from ithaca.model.engine import DEFAULT_ENGINE
from ithaca.model.limits import HELLO_FEATURES_MAX
from ithaca.model.records import Durability
from ithaca.model.view import Address, Orderers
from ithaca.protocol.fields import Natural, Text

VERSION_MIN = 1
VERSION_MAX = 2
"""Since version 2 clients ask for what they want (`scalog.messages.requests`); before, they proposed entries."""

FEATURES: tuple[str, ...] = ("lz4", "zstd")
"""What this version can do beyond the protocol's version; peers use only what both name."""

INSECURE: Final = "insecure"
"""A feature of a server whose cluster lets everybody in, on addresses that others reach."""

ANY_ENGINE: Final = ""
"""Said by whoever wants to learn which engine a cluster has, or asks what all engines answer."""

Role = Literal["client", "replica", "orderer", "aggregator"]


class Hello(msgspec.Struct, frozen=True, array_like=True):
    """The first message of a connection. `log` None accepts any log; `credentials` are a token, or nothing.

    Whoever does not say `engine`, as earlier versions do not, is of the first one that there was.
    """

    version_min: Natural
    version_max: Natural
    role: Role
    name: Text = ""
    features: Annotated[tuple[Text, ...], Meta(max_length=HELLO_FEATURES_MAX)] = ()
    log: UUID | None = None
    credentials: Annotated[bytes, Meta(max_length=1024)] = b""
    engine: Text = DEFAULT_ENGINE

    def __repr__(self) -> str:
        """Nothing that is secret."""
        proof = "a token" if self.credentials else "no token"
        return f"Hello({self.role!r}, {self.name!r}, versions {self.version_min}..{self.version_max}, {proof})"


class Welcome(msgspec.Struct, frozen=True, array_like=True):
    """The connection is on, with this version. `log` is None while the cluster is not configured yet."""

    version: Natural
    role: Role
    name: Text = ""
    features: tuple[Text, ...] = ()
    log: UUID | None = None
    durability: Durability = "fsync"
    """What this server's acknowledgements mean."""
    engine: Text = DEFAULT_ENGINE
    """Of the cluster."""


GREETINGS: Final = (Hello, Welcome)


def fields_to_say(greeting: msgspec.Struct) -> tuple[object, ...]:
    """Those of a `Hello` or `Welcome`, without the engine where it is the one that is meant when none is said."""
    fields = msgspec.structs.astuple(greeting)
    return fields[:-1] if fields[-1] == DEFAULT_ENGINE else fields


class Failure(msgspec.Struct, frozen=True, array_like=True):
    """An error of `model.errors`, by name. With correlation 0 it concerns the connection, which then ends."""

    name: str
    message: str
    detail: dict[str, int | str] = {}
    outcome_unknown: bool = False


class Redirect(msgspec.Struct, frozen=True, array_like=True):
    """Only the leader can answer this; `leader` is where it is, None while there is none."""

    leader: Address | None
    orderers: Orderers = Orderers()


class Finished(msgspec.Struct, frozen=True, array_like=True):
    """The stream has come to the end that was asked for."""


class GetStatus(msgspec.Struct, frozen=True, array_like=True):
    pass


class StatusIs(msgspec.Struct, frozen=True, array_like=True):
    """The server's state as a JSON object (`server.status`)."""

    json: bytes
