"""What sensors send, seeded: packets per second around a level that drifts, and intrusions here and there."""

from collections.abc import Iterator
from random import Random
from typing import Final, NamedTuple

import msgspec

from ithaca.apps.pipelines.events import Event, encode, share

SOURCES: Final = 2
"""Collectors; every group has sensors at each of them."""
GROUPS: Final = 12
SENSORS: Final = 40
"""Of each group at each collector."""
INTRUSION_CHANCE: Final = 0.002
SCHEMA: Final = "source int, number int, area string, sensor int, packets int"


class Reading(msgspec.Struct, frozen=True):
    """Packets that a sensor sent in a second; `number` counts the readings of a collector, from 1."""

    source: int
    number: int
    area: str
    """The group: where the sensor is."""
    sensor: int
    packets: int


class Made(NamedTuple):
    """A reading, and whether an intrusion was planted there."""

    reading: Reading
    is_intrusion: bool


decode = msgspec.json.Decoder(Reading).decode


def readings(seed: int, source: int, records: int) -> Iterator[Made]:
    """What one collector hears, when all of them hear `records` altogether."""
    random = Random(f"intrusion {seed} {source}")
    levels = [Random(f"intrusion {seed} level {group}").randint(200, 800) for group in range(GROUPS)]
    for number in range(1, share(records, SOURCES, source) + 1):
        group = random.randrange(GROUPS)
        levels[group] = min(900, max(100, levels[group] + random.randint(-1, 1)))
        is_intrusion = random.random() < INTRUSION_CHANCE
        usual = max(0, round(random.gauss(levels[group], levels[group] / 10)))
        packets = usual * random.randint(3, 8) if is_intrusion else usual
        yield Made(Reading(source, number, f"area-{group:02}", random.randrange(SENSORS), packets), is_intrusion)


def events(seed: int, source: int, records: int) -> Iterator[Event]:
    """The same as records of the log; the key is the group."""
    for reading, _ in readings(seed, source, records):
        yield reading.area.encode(), encode(reading)
