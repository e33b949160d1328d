"""What the engine belfast writes: scalog's bytes, and 64 more for each batch; for slots that stay empty nothing."""

from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

import ithaca
from ithaca.model.engine import EngineName
from ithaca.storage.lane import Group, Lane
from ithaca.testing import Cluster
from ithaca.wire.batch import DATA, HEAD_BYTES, PLACE

REPLICAS = 2
SHARD = 0
"""The other one is idle."""
LONE = 25
BURST = 200


class Written(NamedTuple):
    """What came to the disks of all replicas, beside what each lane begins with."""

    kinds: Counter[int]
    """Entries, by kind."""
    size_bytes: int
    groups: int
    shards: set[int]


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, Group]]:
    """The shard of each group that any lane of this process writes."""
    found: list[tuple[int, Group]] = []
    commit = Lane.commit

    def noted(lane: Lane, group: Group) -> None:
        commit(lane, group)
        found.append((lane.lane.shard, group))

    monkeypatch.setattr(Lane, "commit", noted)
    return found


def summary(groups: list[tuple[int, Group]]) -> Written:
    return Written(
        Counter(entry.kind for _, group in groups for entry in group.entries),
        sum(group.end_offset - group.offset for _, group in groups),
        len(groups),
        {shard for shard, _ in groups},
    )


def written(home: Path, engine: EngineName, groups: list[tuple[int, Group]]) -> tuple[Written, Written]:
    """By appends one after the other, and by a burst of them, in one of two shards."""
    with (
        Cluster(home / engine, shards=2, replicas=REPLICAS, engine=engine) as cluster,
        ithaca.connect(cluster.bootstrap) as log,
        ithaca.connect(cluster.bootstrap) as burst,
    ):
        burst.set_shard_policy(lambda key, shards: SHARD)
        log.append_to_shard(SHARD, b"opens the session")
        groups.clear()
        for number in range(LONE):
            log.append_to_shard(SHARD, b"x" * number)
        lone = summary(groups)
        groups.clear()
        for number in range(BURST):
            burst.submit_many([b"x" * (number % 50)] * (1 + number % 3))
        burst.flush()
    return lone, summary(groups)


def test_a_batch_takes_64_bytes_more_than_in_scalog_and_an_empty_slot_none(
    tmp_path: Path, groups: list[tuple[int, Group]]
) -> None:
    plain, _ = written(tmp_path, "scalog", groups)
    lone, burst = written(tmp_path, "belfast", groups)
    assert plain.kinds == {DATA: LONE * REPLICAS}
    assert lone.kinds == {DATA: LONE * REPLICAS, PLACE: LONE * REPLICAS}
    assert lone.size_bytes <= plain.size_bytes + HEAD_BYTES * LONE * REPLICAS
    assert set(burst.kinds) == {DATA, PLACE}, "nothing else is written, however many come at once"
    assert burst.kinds[PLACE] == burst.kinds[DATA]
    assert lone.shards == burst.shards == {SHARD}, "the other shard is idle, and writes nothing"
