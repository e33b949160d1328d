"""The three applications as rules, and the same over a whole log in plain Python.

| application | a state for each | its state                                   | an alert when                       |
|-------------|------------------|---------------------------------------------|-------------------------------------|
| intrusion   | group of sensors | the last readings                           | a reading is far above them         |
| fraud       | user             | running statistics, last place and time     | an amount or a journey is unlikely  |
| trading     | pair of stocks   | last prices, last points, slope of the line | a price leaves the line of the pair |
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from ithaca.apps.fraud import payments
from ithaca.apps.fraud import plain as fraud_plain
from ithaca.apps.intrusion import plain as intrusion_plain
from ithaca.apps.intrusion import readings
from ithaca.apps.pipelines.events import Event
from ithaca.apps.speculative.desk import Desk, Rule, State
from ithaca.apps.trading import plain as trading_plain
from ithaca.apps.trading import ticks
from ithaca.model.records import KeyFilter, Record

Alerts = list[tuple[Any, ...]]
_HALVES: Final = (KeyFilter.part(0, 2), KeyFilter.part(1, 2))
_PAIR_OF: Final = {stock: (pair, side) for pair, stocks in ticks.PAIRS.items() for side, stock in enumerate(stocks)}


class Application(NamedTuple):
    """A rule, the records that it judges, and what plain Python says of all of them."""

    rule: Rule
    sources: int
    events: Callable[[int, int, int], Iterator[Event]]
    plain: Callable[[Iterable[Record]], Alerts]
    shares: tuple[KeyFilter | None, ...]
    """What each of its tasks follows: parts of the keys, where a key has a state of its own."""

    def open_desk(self, path: Path) -> Desk:
        return Desk(path, self.rule)


def _intrusion(window: State | None, record: Record) -> tuple[State, tuple[Any, ...] | None]:
    reading, before = readings.decode(record.value), window or []
    alert = intrusion_plain.judge(before, record.position, reading)
    return [*before, reading.packets][-intrusion_plain.WINDOW :], alert


def _fraud(known: State | None, record: Record) -> tuple[State, tuple[Any, ...] | None]:
    payment = payments.decode(record.value)
    state = fraud_plain.UserState(payment.user) if known is None else fraud_plain.UserState(*known)
    states = {payment.user: state}
    alerts = fraud_plain.judge([(record.position, payment)], states)
    return states[payment.user], alerts[0] if alerts else None


def _trading(kept: State | None, record: Record) -> tuple[State, tuple[Any, ...] | None]:
    tick = ticks.decode(record.value)
    pair, side = _PAIR_OF[tick.stock]
    regression = trading_plain.PairRegression(pair, kept)
    signal = regression.tick(record.position, side, tick.price_cents)
    return regression.kept(), signal


def _plain_intrusion(records: Iterable[Record]) -> Alerts:
    return [tuple(each) for each in intrusion_plain.detect(_decoded(records, readings.decode))]


def _plain_fraud(records: Iterable[Record]) -> Alerts:
    return [tuple(each) for each in fraud_plain.judge(_decoded(records, payments.decode), {})]


def _plain_trading(records: Iterable[Record]) -> Alerts:
    return [tuple(each) for each in trading_plain.signals(_decoded(records, ticks.decode))]


def _decoded(records: Iterable[Record], decode: Callable[[bytes], Any]) -> Iterator[tuple[int, Any]]:
    return ((record.position, decode(record.value)) for record in records)


def _pair_of(record: Record) -> str:
    return _PAIR_OF[ticks.decode(record.value).stock][0]


def _key_of(record: Record) -> str:
    return (record.key or b"").decode()


APPLICATIONS: Final = {
    "intrusion": Application(
        Rule("intrusion", _key_of, _intrusion), readings.SOURCES, readings.events, _plain_intrusion, _HALVES
    ),
    "fraud": Application(Rule("fraud", _key_of, _fraud), payments.SOURCES, payments.events, _plain_fraud, _HALVES),
    "trading": Application(Rule("trading", _pair_of, _trading), ticks.SOURCES, ticks.events, _plain_trading, (None,)),
}


def endless_events(name: str, seed: int, client: int) -> Iterator[Event]:
    """More records of a source than anybody asks for."""
    application = APPLICATIONS[name]
    return application.events(seed + client, client % application.sources, 1 << 40)


def open_desk(name: str, path: Path) -> Desk:
    """A task of the application, with its database there."""
    return APPLICATIONS[name].open_desk(path)


def measured(name: str, seed: int = 1) -> tuple[Callable[[int], Iterator[Event]], Callable[[Path], Desk]]:
    """The records and the task of an application, for other processes."""
    return partial(endless_events, name, seed), partial(open_desk, name)
