"""Fraud monitoring from beginning to end: gateways append, Spark judges as payments come, one user is looked at."""

from functools import partial

import ithaca
from ithaca.apps.fraud.payments import SCHEMA, SOURCES, Payment, decode, events
from ithaca.apps.fraud.plain import UserState, judge
from ithaca.apps.fraud.store import FraudStore
from ithaca.apps.fraud.stream import FraudStream, Judged
from ithaca.apps.pipelines.claims import Claims
from ithaca.apps.pipelines.events import read_all
from ithaca.apps.pipelines.feed import Feed
from ithaca.apps.pipelines.patience import PatientQuery
from ithaca.apps.pipelines.stage import Figures, Stage
from ithaca.model.records import Record
from ithaca.spark import from_json

BATCHES = 4
"""A micro-batch takes at most this part of all records, so that there are several."""


def run(stage: Stage, seed: int, records: int) -> Figures:
    """Append and judge at the same time, compare with plain Python, then read the payments of one user."""
    store = FraudStore(stage.home / "fraud.sqlite")
    batches: list[Judged] = []
    stage.say(f"{SOURCES} gateways append {records:,} payments; Spark judges them as they come")
    stream = FraudStream(store, batches.append)
    checkpoint, batch_records = stage.home / "checkpoint", -(-records // BATCHES)
    start = partial(stream.start, stage.spark, stage.bootstrap, checkpoint, batch_records)
    with PatientQuery(start, stage.say) as query:
        with Feed(stage.bootstrap, {source: events(seed, source, records) for source in range(SOURCES)}) as feed:
            feed.finish()
        query.process_all()
    with ithaca.connect(stage.bootstrap) as log:
        held = list(read_all(log))
    stage.claims.log_holds(held, {source: events(seed, source, records) for source in range(SOURCES)})
    check_alerts(stage.claims, store, held)
    return [
        ("micro-batches", f"{len(batches):,}"),
        ("alerts", f"{len(store.alerts()):,}"),
        *look_at(stage, held, store.most_alarming_user()),
    ]


def check_alerts(claims: Claims, store: FraudStore, held: list[Record]) -> None:
    """What the stream has left in the database, against plain Python over the whole log."""
    states: dict[str, UserState] = {}
    expected = judge(((record.position, decode(record.value)) for record in held), states)
    claims.same("the stream's alerts are those of plain Python", store.alerts(), expected)
    claims.same("so are every user's running statistics", store.states(), [states[user] for user in sorted(states)])


def look_at(stage: Stage, held: list[Record], user: str | None) -> Figures:
    """One user's payments, which the replicas find by their key: nothing else is sent to Spark."""
    if user is None:
        return []
    frame = from_json(stage.table(keyFilter=f"equals:{user}"), SCHEMA, keep=())
    found = [Payment(*row) for row in frame.collect()]
    expected = [decode(record.value) for record in held if record.key == user.encode()]
    stage.claims.same(f"the payments of {user}, filtered by the replicas, are those of plain Python", found, expected)
    return [(f"payments of {user}, who has the most alerts", f"{len(found):,}")]
