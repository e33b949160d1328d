"""Payments, seeded: users with habits, and now and then somebody who is not the user."""

from collections.abc import Iterator
from random import Random
from typing import Final

import msgspec

from ithaca.apps.pipelines.events import Event, encode, share, time_of_day

SOURCES: Final = 2
"""Payment gateways; every user pays through all of them."""
USERS: Final = 400
COUNTRIES: Final = ("DE", "FR", "GR", "IT", "US", "JP")
MERCHANTS: Final = 60
FRAUD_CHANCE: Final = 0.002
SCHEMA: Final = "source int, user string, at_s int, amount_cents long, country string, merchant int"


class Payment(msgspec.Struct, frozen=True):
    """One payment."""

    source: int
    user: str
    at_s: int
    """Seconds since the day began, by the gateway's clock."""
    amount_cents: int
    country: str
    merchant: int


decode = msgspec.json.Decoder(Payment).decode


def payments(seed: int, source: int, records: int) -> Iterator[Payment]:
    """What one gateway takes of a day that has `records` payments altogether."""
    random = Random(f"fraud {seed} {source}")
    wanted = share(records, SOURCES, source)
    for number in range(wanted):
        user = random.randrange(USERS)
        amount_cents = round(random.lognormvariate(0, 0.4) * _usual_cents(user))
        country = COUNTRIES[user % len(COUNTRIES)]
        if random.random() < FRAUD_CHANCE:
            amount_cents *= random.randint(6, 20)
        if random.random() < FRAUD_CHANCE:
            country = random.choice(COUNTRIES)
        merchant = int(MERCHANTS * random.random() ** 2)
        yield Payment(source, f"user-{user:03}", time_of_day(number, wanted), amount_cents, country, merchant)


def events(seed: int, source: int, records: int) -> Iterator[Event]:
    """The same as records of the log; the key is the user."""
    for payment in payments(seed, source, records):
        yield payment.user.encode(), encode(payment)


def _usual_cents(user: int) -> int:
    """What the user spends at a time, mostly: some have little, some much."""
    return 500 + (user * 7919) % 20_000
