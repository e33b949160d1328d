"""Prices, seeded: the stocks of a pair follow one hidden walk, each with noise of its own, and shocks now and then."""

from collections.abc import Iterator
from itertools import count, islice
from random import Random
from typing import Final

import msgspec

from ithaca.apps.pipelines.events import Event, encode, share

SOURCES: Final = 2
"""Exchanges: the first quotes the first stock of each pair, the second the other."""
PAIRS: Final = {
    "pair-1": ("ABC", "XYZ"),
    "pair-2": ("GOLD", "MINE"),
    "pair-3": ("OIL", "FLY"),
    "pair-4": ("SEA", "SKY"),
}
SHOCK_CHANCE: Final = 0.002
SHOCK_CENTS: Final = 600
SCHEMA: Final = "source int, stock string, price_cents int"


class Tick(msgspec.Struct, frozen=True):
    """A price."""

    source: int
    stock: str
    price_cents: int


decode = msgspec.json.Decoder(Tick).decode


def ticks(seed: int, source: int, records: int) -> Iterator[Tick]:
    """What one exchange quotes, when both quote `records` prices altogether."""
    return islice(_rounds(seed, source), share(records, SOURCES, source))


def events(seed: int, source: int, records: int) -> Iterator[Event]:
    """The same as records of the log; the key is the stock."""
    for tick in ticks(seed, source, records):
        yield tick.stock.encode(), encode(tick)


def _rounds(seed: int, source: int) -> Iterator[Tick]:
    """All stocks of the exchange in turn, without end."""
    noise = Random(f"trading {seed} {source}")
    walks = {pair: _walk(seed, pair) for pair in PAIRS}
    slopes = {pair: 1 + source * Random(f"trading {seed} slope {pair}").randint(-15, 15) / 10 for pair in PAIRS}
    for _ in count():
        for pair, stocks in PAIRS.items():
            price = 10_000 + 5_000 * source + slopes[pair] * next(walks[pair]) + noise.gauss(0, 20)
            if noise.random() < SHOCK_CHANCE:
                price += noise.choice((-SHOCK_CENTS, SHOCK_CENTS))
            yield Tick(source, stocks[source], round(price))


def _walk(seed: int, pair: str) -> Iterator[float]:
    """What moves both stocks of a pair: the same numbers at either exchange. It is drawn back to where it began."""
    random = Random(f"trading {seed} walk {pair}")
    level = 0.0
    while True:
        level = 0.999 * level + random.gauss(0, 25)
        yield level
