"""Little room for parts and for what is not ordered yet, so that clients are refused (`Overloaded`) and try again.

Drawn apart from the rest of a configuration, so that the other seeds stay what they were. Whoever is refused must get
on in the end: parts that nobody publishes expire soon where there is room for few.
"""

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from ithaca.model.limits import KIB

if TYPE_CHECKING:
    from ithaca.sim.configuration import Configuration

_BATCH_EXTRA_BYTES = 4 * KIB
_RECORD_EXTRA_BYTES = 64
_CHANCE = 0.4


def with_part_room(configuration: "Configuration") -> "Configuration":
    """The same, or with less room."""
    random = Random(f"room for parts of {configuration.seed}")
    limits: dict[str, int] = {}
    if random.random() < _CHANCE:
        # What one client has under way fits: a batch that is larger than all the room would be refused for ever.
        record_bytes = configuration.record_bytes_max + _RECORD_EXTRA_BYTES
        most = configuration.window * configuration.records_max * record_bytes + _BATCH_EXTRA_BYTES
        limits["LANE_PENDING_BYTES_MAX"] = random.choice((1, 1, 2)) * most
    # Parts of drivers, which wait for their tasks, and of consumers live for an hour, although their client was killed.
    has_lasting_parts = configuration.drivers or configuration.consumers or configuration.group_members
    if configuration.publishers and not has_lasting_parts and random.random() < _CHANCE:
        limits["PARTS_MAX"] = random.choice((6, 9, 24))
        limits["PARTS_UNFINISHED_MAX"] = random.choice((1, 3))
    return replace(configuration, limits=configuration.limits | limits)
