"""Alerts from beginning to end: gateways append, Spark judges before the order is final, and tells what is."""

import time

import ithaca
from ithaca.apps.alerts.store import Alert, AlertStore
from ithaca.apps.alerts.stream import LIMIT_CENTS, AlertStream
from ithaca.apps.demo_cast import DemoFailed
from ithaca.apps.fraud.payments import SOURCES, decode, events
from ithaca.apps.pipelines.events import read_all
from ithaca.apps.pipelines.feed import WAIT_S, Feed
from ithaca.apps.pipelines.stage import Figures, Stage

BATCH_RECORDS = 20
_LOOK_S = 0.1


def run(stage: Stage, seed: int, records: int) -> Figures:
    """Append while the stream runs, stop the query in the middle and start it again, compare."""
    store = AlertStore(stage.home / "alerts.sqlite")
    stream = AlertStream(store)
    stage.say(f"{SOURCES} gateways append {records:,} payments; Spark judges them before their order is final")
    query = stream.start(stage.spark, stage.bootstrap, stage.home / "checkpoint")
    sources = {source: events(seed, source, records) for source in range(SOURCES)}
    try:
        with Feed(stage.bootstrap, sources, BATCH_RECORDS, hold_at=records // 2) as feed:
            feed.wait_for(records // 2)
            query.stop()
            stage.say("   the query was stopped, and goes on where it was")
            query = stream.start(stage.spark, stage.bootstrap, stage.home / "checkpoint")
            feed.go_on()
            feed.finish()
        with ithaca.connect(stage.bootstrap) as log:
            held = list(read_all(log))
        _wait(store, held[-1].position)
    finally:
        query.stop()
    stage.claims.log_holds(held, {source: events(seed, source, records) for source in range(SOURCES)})
    payments = [(record.position, decode(record.value)) for record in held]
    expected = [Alert(at, each.user, each.amount_cents) for at, each in payments if each.amount_cents > LIMIT_CENTS]
    stage.claims.same("what was told is what plain Python finds", store.alerts(), expected)
    return [
        ("micro-batches", f"{stream.batches:,}"),
        ("alerts", f"{len(expected):,}"),
        ("rows that were taken back", f"{stream.taken_back:,}"),
    ]


def _wait(store: AlertStore, last: int) -> None:
    """Until everything is confirmed, and told."""
    deadline_s = time.monotonic() + WAIT_S
    while store.confirmed < last:
        if time.monotonic() > deadline_s:
            raise DemoFailed(f"Spark has told what is final up to {store.confirmed}, and not up to {last}")
        time.sleep(_LOOK_S)
