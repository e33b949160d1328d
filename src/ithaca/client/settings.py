"""What a user may choose when connecting, checked."""

from dataclasses import dataclass, field
from typing import get_args

from ithaca.model.errors import InvalidInput
from ithaca.model.interface import ShardPolicy
from ithaca.model.limits import INFLIGHT_BYTES_MAX
from ithaca.model.records import Compression
from ithaca.model.security.tls import TLS, checked_tls
from ithaca.model.security.token import checked_token
from ithaca.model.units import Duration, Size, byte_count, seconds
from ithaca.wire.compression import code_of

POLICIES = get_args(get_args(ShardPolicy)[0])


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """The arguments of `connect`, apart from the addresses: the same for every engine."""

    timeout_s: float = 30
    compression: Compression = "none"
    shard_policy: ShardPolicy = "sticky"
    inflight_bytes_max: int = INFLIGHT_BYTES_MAX
    tls: TLS | None = None
    token: str = field(default="", repr=False)
    """By which the user is known; empty without one."""

    def __post_init__(self) -> None:
        if seconds(self.timeout_s) <= 0:
            raise InvalidInput(f"timeout is {self.timeout_s!r}: use a positive number of seconds")
        byte_count(self.inflight_bytes_max, "inflight_bytes_max")
        code_of(self.compression)
        check_policy(self.shard_policy)


def client_settings(
    timeout: Duration,
    compression: Compression,
    shard_policy: ShardPolicy | None,
    inflight_bytes_max: Size,
    tls: TLS | None,
    token: str | None,
) -> ClientSettings:
    """The arguments of `connect`, as they were written; what protects links, and who this is, may come from the
    environment."""
    return ClientSettings(
        seconds(timeout),
        compression,
        "sticky" if shard_policy is None else shard_policy,
        byte_count(inflight_bytes_max, "inflight_bytes_max"),
        checked_tls(tls),
        checked_token(token),
    )


def check_policy(policy: ShardPolicy) -> None:
    if not callable(policy) and policy not in POLICIES:
        names = ", ".join(map(repr, POLICIES))
        raise InvalidInput(f"shard policy {policy!r} is not known: use {names} or a function of key and live shards")
