"""How an order is fixed before, as a cluster's file says it: the table `[belfast]`, for the engine of that name.

| key      | value   | what it means                                                                                |
|----------|---------|----------------------------------------------------------------------------------------------|
| `mode`   | `fixed` | every shard has slots in every cut, so that records can be delivered before they are ordered |
|          | `free`  | nobody has slots: the order is that of `scalog`, and records are delivered when ordered      |
|          | `auto`  | fixed while somebody speculates and the shards keep up, else free                            |
| `quotas` | `wide`  | the same number of slots for all, far more than are used: those that are not cost nothing    |
|          | `rate`  | as many as a shard took in lately, as in the paper                                           |
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from ithaca.model.config.rules import Choice, Rule
from ithaca.model.engine import EngineName

SLOT_ENGINE: Final[EngineName] = "belfast"
"""The engine that the table is for, and its name."""
SlotMode = Literal["fixed", "free", "auto"]
SlotQuotas = Literal["wide", "rate"]

RULES: Final[Mapping[str, Rule]] = {"mode": Choice(get_args(SlotMode)), "quotas": Choice(get_args(SlotQuotas))}


@dataclass(frozen=True, slots=True)
class SlotSettings:
    """What an operator chooses."""

    mode: SlotMode = "fixed"
    quotas: SlotQuotas = "wide"


USUAL_SLOTS: Final = SlotSettings()
"""What a file says that says nothing of it."""


def slot_settings(table: Mapping[str, Any]) -> SlotSettings:
    """What a table that was checked says."""
    return SlotSettings(table.get("mode", USUAL_SLOTS.mode), table.get("quotas", USUAL_SLOTS.quotas))
