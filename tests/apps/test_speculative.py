"""Speculative applications: whatever is taken back, and whenever they die, what they told is what plain Python has."""

import pickle
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest
from tests.speculation.scripted import Scripted
from tests.speculation.test_tasks import ScriptedLog

import ithaca
from ithaca import speculation
from ithaca.apps.speculative.desk import Applied, Desk
from ithaca.apps.speculative.rules import APPLICATIONS, Application, measured
from ithaca.model.records import Record
from ithaca.model.speculation import Confirmed, Delivered, Failed, SpeculativeEvent
from ithaca.testing import Cluster

RECORDS = 3000


def held(application: Application, seed: int) -> list[Record]:
    """The records of all sources, mixed, at sparse positions."""
    random = Random(seed)
    sources = [list(application.events(seed, source, RECORDS)) for source in range(application.sources)]
    records: list[Record] = []
    while any(sources):
        events = random.choice([each for each in sources if each])
        key, value = events.pop(0)
        at = records[-1].position + random.randint(1, 3) if records else 1
        records.append(Record(position=at, value=value, key=key, timestamp_us=0, shard=0))
    return records


def told(records: list[Record], seed: int) -> Iterator[list[SpeculativeEvent]]:
    """Speculative events: now and then what is ahead fails, and comes in another order first."""
    random, attempt, done = Random(f"told {seed}"), 0, 0
    while done < len(records):
        ahead = records[done : done + random.randint(1, 60)]
        confirmed = random.randint(0, len(ahead))
        yield [Delivered(record, attempt) for record in ahead]
        if confirmed:
            yield [Confirmed(ahead[confirmed - 1].position)]
        done += confirmed
        attempt += 1
        yield [Failed(records[done - 1].position if done else 0)]


@pytest.mark.parametrize("name", APPLICATIONS)
def test_what_is_told_is_what_plain_python_has(name: str, tmp_path: Path) -> None:
    application = APPLICATIONS[name]
    records = held(application, 1)
    desk = application.open_desk(tmp_path / "desk.sqlite")
    log = ScriptedLog(Scripted(list(told(records, 1))))
    speculation.run(log, desk.apply, desk.undo, desk.publish)
    expected = application.plain(records)
    assert expected, "a run without an alert shows nothing"
    assert desk.alerts() == expected
    assert desk.undone > 0
    assert desk.position == records[-1].position + 1
    states = desk.states()
    desk.close()
    straight = application.open_desk(tmp_path / "straight.sqlite")
    for record in records[:500]:
        straight.publish(record, straight.apply(record))
    for record in records[500:]:
        straight.apply(record)
    assert straight.states() == states
    straight.close()


def test_a_task_that_dies_takes_back_what_was_not_final(tmp_path: Path) -> None:
    application = APPLICATIONS["fraud"]
    records = held(application, 2)[:400]
    desk = application.open_desk(tmp_path / "desk.sqlite")
    for record in records[:200]:
        desk.publish(record, desk.apply(record))
    states = desk.states()
    for record in records[200:]:
        desk.apply(record)
    desk.close()  # as a kill would leave it: nothing was undone
    again = application.open_desk(tmp_path / "desk.sqlite")
    assert again.undone == 200
    assert again.states() == states
    assert again.position == records[199].position + 1
    again.close()


def test_a_bench_gets_records_without_end_and_the_task(tmp_path: Path) -> None:
    for name in APPLICATIONS:
        events, application = pickle.loads(pickle.dumps(measured(name)))  # as another process gets them
        key, value = next(events(3))
        desk = application(tmp_path / f"{name}.sqlite")
        desk.apply(Record(position=1, value=value, key=key, timestamp_us=0, shard=0))
        assert desk.states()
        desk.close()


def test_on_a_cluster_a_killed_primary_and_a_closed_handle_change_nothing(tmp_path: Path) -> None:
    """The handle of a task is closed in the middle, a primary is killed, and another task goes on from the database."""
    application, path = APPLICATIONS["fraud"], tmp_path / "desk.sqlite"
    sources = [list(application.events(3, source, 1200)) for source in range(application.sources)]
    with Cluster(tmp_path / "cluster", shards=2, engine="belfast") as cluster, ithaca.connect(cluster.bootstrap) as log:
        append(cluster, [events[:300] for events in sources])
        desk = application.open_desk(path)
        with pytest.raises(ithaca.LogClosed):
            run_until_closed(cluster, desk, 250)
        assert desk.position > 250
        desk.close()
        cluster.kill_server("shard-0-replica-0")
        cluster.start_server("shard-0-replica-0")
        cluster.wait_healthy()  # a shard whose primary is away for longer takes nothing from new handles
        append(cluster, [events[300:] for events in sources])
        again = application.open_desk(path)
        assert again.undone == 0, "leaving has taken back what was not published"
        speculation.run(log, again.apply, again.undo, again.publish, start=again.position, stop=log.tail())
        records = list(log.read_range(log.first()))
        assert len(records) == 1200
        assert again.alerts() == application.plain(records)
        again.close()


def append(cluster: Cluster, sources: list[list[tuple[bytes, bytes]]]) -> None:
    """Each source into a shard of its own, in turns."""
    with ExitStack() as stack:
        logs = [
            stack.enter_context(ithaca.connect(cluster.bootstrap, shard_policy=lambda key, shards, at=at: at))
            for at in range(len(sources))
        ]
        for place in range(0, max(map(len, sources)), 30):
            for log, events in zip(logs, sources, strict=True):
                pairs = events[place : place + 30]
                log.append_many([value for _, value in pairs], keys=[key for key, _ in pairs])


def run_until_closed(cluster: Cluster, desk: Desk, records: int) -> None:
    """A task whose handle somebody closes when so many records are published."""
    published = 0
    with ithaca.connect(cluster.bootstrap) as log:

        def publish(record: Record, applied: Applied) -> None:
            nonlocal published
            desk.publish(record, applied)
            published += 1
            if published == records:
                log.close()

        speculation.run(log, desk.apply, desk.undo, publish)
