"""Filters on keys, as messages carry them."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from ithaca.model.records import HASH_SPACE, KeyFilter


class Filter(msgspec.Struct, frozen=True, array_like=True):
    """A `KeyFilter`; of hashes, those from `low` to `last`, both included, since 2**64 does not fit."""

    kind: Literal["equals", "prefix", "hash"]
    key: bytes = b""
    low: Annotated[int, Meta(ge=0)] = 0
    last: Annotated[int, Meta(ge=-1)] = -1


def sent_filter(where: KeyFilter) -> Filter:
    """The filter as it is sent; a message cannot name the end of the hash space, where an empty range may begin."""
    if where.kind == "hash" and where.low >= where.high:
        return Filter("hash", b"", 0, -1)
    return Filter(where.kind, where.key, where.low, where.high - 1)


def key_filter(sent: Filter) -> KeyFilter:
    """The filter that a client sent."""
    if sent.kind == "hash":
        return KeyFilter.hash_range(sent.low, max(sent.low, min(sent.last + 1, HASH_SPACE)))
    return KeyFilter(sent.kind, key=sent.key)
