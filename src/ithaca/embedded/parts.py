"""Prepared appends, which an embedded log has not: its one writer appends a batch as a whole anyway."""

from collections.abc import Iterable
from typing import NoReturn

from ithaca.model import interface, interface_aio
from ithaca.model.errors import Unsupported
from ithaca.model.limits import PART_TTL_S
from ithaca.model.parts import Part
from ithaca.model.records import Buffer


def _refuse() -> NoReturn:
    raise Unsupported(
        "an embedded log has no prepared appends, since one process writes it: use append_many, which is atomic, with "
        "a session, which is idempotent; or a cluster, whose log has them"
    )


class NoPreparedAppends(interface.PreparedAppends):
    """Refuses them."""

    def prepare(
        self,
        values: Iterable[Buffer],
        *,
        keys: Iterable[Buffer | None] | None = None,
        shard: int | None = None,
        ttl: float = PART_TTL_S,
        timeout: float | None = None,
    ) -> NoReturn:
        _refuse()

    def open_part(self, *, shard: int | None = None, ttl: float = PART_TTL_S, timeout: float | None = None) -> NoReturn:
        _refuse()

    def publish(
        self, key: int, parts: Iterable[Part], *, writer: str, owner: str = "", timeout: float | None = None
    ) -> NoReturn:
        _refuse()

    def publish_once(self, parts: Iterable[Part], *, timeout: float | None = None) -> NoReturn:
        _refuse()

    def renew(self, parts: Iterable[Part], *, ttl: float = PART_TTL_S, timeout: float | None = None) -> NoReturn:
        _refuse()

    def abort(self, parts: Iterable[Part]) -> NoReturn:
        _refuse()


class NoAsyncPreparedAppends(interface_aio.PreparedAppends):
    """The same, awaited."""

    async def prepare(
        self,
        values: Iterable[Buffer],
        *,
        keys: Iterable[Buffer | None] | None = None,
        shard: int | None = None,
        ttl: float = PART_TTL_S,
        timeout: float | None = None,
    ) -> NoReturn:
        _refuse()

    async def open_part(
        self, *, shard: int | None = None, ttl: float = PART_TTL_S, timeout: float | None = None
    ) -> NoReturn:
        _refuse()

    async def publish(
        self, key: int, parts: Iterable[Part], *, writer: str, owner: str = "", timeout: float | None = None
    ) -> NoReturn:
        _refuse()

    async def publish_once(self, parts: Iterable[Part], *, timeout: float | None = None) -> NoReturn:
        _refuse()

    async def renew(self, parts: Iterable[Part], *, ttl: float = PART_TTL_S, timeout: float | None = None) -> NoReturn:
        _refuse()

    async def abort(self, parts: Iterable[Part]) -> NoReturn:
        _refuse()
