"""What visitors do, seeded: they come, look at products of a kind, fill a cart, and some buy it."""

from collections.abc import Iterator
from itertools import count, islice
from random import Random
from typing import Final, Literal

import msgspec

from ithaca.apps.pipelines.events import Event, encode, share, time_of_day

SOURCES: Final = 2
"""Web servers, each with visitors of its own making; the same visitor may come to several."""
VISITORS: Final = 3000
PRODUCTS: Final = 200
KINDS: Final = 20
"""Products of a kind are looked at, and bought, together."""
SCHEMA: Final = "source int, at_s int, visitor string, action string, product int, order_id long"

Action = Literal["view", "cart", "buy"]


class Activity(msgspec.Struct, frozen=True):
    """One thing that a visitor did; `order_id` says what was bought together, and is 0 for what was not bought."""

    source: int
    at_s: int
    visitor: str
    action: Action
    product: int
    order_id: int = 0


decode = msgspec.json.Decoder(Activity).decode


def activities(seed: int, source: int, records: int) -> Iterator[Activity]:
    """What one web server sees of a day that has `records` altogether."""
    random = Random(f"marketplace {seed} {source}")
    wanted = share(records, SOURCES, source)
    return islice(_visits(random, source, wanted), wanted)


def events(seed: int, source: int, records: int) -> Iterator[Event]:
    """The same as records of the log; the key is the visitor."""
    for activity in activities(seed, source, records):
        yield activity.visitor.encode(), encode(activity)


def _visits(random: Random, source: int, wanted: int) -> Iterator[Activity]:
    """One visit after the other, without end; the clock has reached midnight when `wanted` are made."""
    made = 0
    for visit in count(1):
        visitor = f"visitor-{_popular(random, VISITORS):04}"
        order = source * 1_000_000_000 + visit
        for action, product in _visit(random):
            yield Activity(source, time_of_day(made, wanted), visitor, action, product, order if action == "buy" else 0)
            made += 1


def _visit(random: Random) -> list[tuple[Action, int]]:
    """Some products are viewed, some of those put into the cart, and four carts of ten are bought."""
    kind = _popular(random, KINDS)
    seen = [kind + KINDS * _popular(random, PRODUCTS // KINDS) for _ in range(random.randint(1, 8))]
    cart = sorted({product for product in seen if random.random() < 0.4})
    bought = cart if random.random() < 0.4 else []
    views: list[tuple[Action, int]] = [("view", product) for product in seen]
    return [*views, *(("cart", product) for product in cart), *(("buy", product) for product in bought)]


def _popular(random: Random, choices: int) -> int:
    """A number below `choices`; small ones are more frequent."""
    return int(choices * random.random() ** 2)
