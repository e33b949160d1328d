"""How much a cluster keeps, as its file says it: the leader of the ordering layer trims what is beyond it."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

import msgspec

from ithaca.model.config.rules import AllOrNames, Amount, Number, Rule
from ithaca.model.limits import KEEP_FOR_CONSUMERS_S, RETENTION_AGE_S_MAX, RETENTION_BYTES_MAX, SEGMENT_BYTES_MIN
from ithaca.model.records import Retention

RULES: Final[Mapping[str, Rule]] = {
    "age_s": Amount(Number(1, RETENTION_AGE_S_MAX), "s"),
    "shard_bytes": Amount(Number(SEGMENT_BYTES_MIN, RETENTION_BYTES_MAX), "bytes"),
    "keep_for_consumers": AllOrNames(),
    "keep_for_consumers_s": Amount(Number(1, RETENTION_AGE_S_MAX), "s"),
}


def retention(table: Mapping[str, Any]) -> Retention | None:
    """What a table that was checked says; None when it says nothing.

    >>> retention({"age_s": 3600}) == Retention("1h")
    True
    """
    age_s, shard_bytes = table.get("age_s"), table.get("shard_bytes")
    if age_s is None and shard_bytes is None:
        return None
    return Retention(
        None if age_s is None else timedelta(seconds=age_s),
        shard_bytes,
        keep_for_consumers=table.get("keep_for_consumers", False),
        keep_for=table.get("keep_for_consumers_s", KEEP_FOR_CONSUMERS_S),
    )


def dump_retention(kept: Retention) -> list[str]:
    """The lines of the table that says the same."""
    lines = ["[retention]"]
    if kept.age is not None:
        lines.append(f"age_s = {int(kept.age.total_seconds())}")
    if kept.bytes is not None:
        lines.append(f"shard_bytes = {kept.bytes}")
    if kept.keep_for_consumers is True:
        lines.append("keep_for_consumers = true")
    elif kept.keep_for_consumers:
        lines.append(f"keep_for_consumers = [{', '.join(map(_quoted, kept.keep_for_consumers))}]")
    if kept.keep_for_consumers:
        lines.append(f"keep_for_consumers_s = {int(kept.keep_for.total_seconds())}")
    return lines


def _quoted(name: str) -> str:
    """A text of TOML, whose basic strings are those of JSON."""
    return msgspec.json.encode(name).decode()
