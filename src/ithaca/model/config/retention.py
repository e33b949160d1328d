"""How much a cluster keeps, as its file says it: the leader of the ordering layer trims what is beyond it."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from ithaca.model.config.rules import Amount, Number, Rule
from ithaca.model.limits import RETENTION_AGE_S_MAX, RETENTION_BYTES_MAX, SEGMENT_BYTES_MIN
from ithaca.model.records import Retention

RULES: Final[Mapping[str, Rule]] = {
    "age_s": Amount(Number(1, RETENTION_AGE_S_MAX), "s"),
    "shard_bytes": Amount(Number(SEGMENT_BYTES_MIN, RETENTION_BYTES_MAX), "bytes"),
}


def retention(table: Mapping[str, Any]) -> Retention | None:
    """What a table that was checked says; None when it says nothing.

    >>> retention({"age_s": 3600})
    Retention(age=datetime.timedelta(seconds=3600), bytes=None)
    """
    age_s, shard_bytes = table.get("age_s"), table.get("shard_bytes")
    if age_s is None and shard_bytes is None:
        return None
    return Retention(None if age_s is None else timedelta(seconds=age_s), shard_bytes)


def dump_retention(kept: Retention) -> list[str]:
    """The lines of the table that says the same."""
    lines = ["[retention]"]
    if kept.age is not None:
        lines.append(f"age_s = {int(kept.age.total_seconds())}")
    if kept.bytes is not None:
        lines.append(f"shard_bytes = {kept.bytes}")
    return lines
