"""The merge of shard streams, against what the naive order says."""

import random
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from ithaca.client.merge import Merge, Piece
from ithaca.model.errors import Lost
from ithaca.model.records import Record
from ithaca.wire.batch import Batch
from ithaca.wire.build import build
from ithaca.wire.positioned import PositionedBatch


def batch_of(count: int) -> Batch:
    return build([b"v"] * count, timestamp_us=0)


def piece(shard: int, start: int, count: int) -> Piece:
    return Piece(shard, start, start + count, PositionedBatch(batch_of(count), start, shard, 0, count), count, start)


def records_of(pieces: list[Piece]) -> list[Record]:
    return [record for each in pieces if each.batch is not None for record in each.batch.records()]


@dataclass
class Script:
    """A log: which shard has each stretch, whether a filter passes it, and when shards came into being."""

    shards: list[int]
    counts: list[int]
    passes: list[bool]
    seed: int


SCRIPTS = st.integers(1, 30).flatmap(
    lambda size: st.builds(
        Script,
        st.lists(st.integers(0, 3), min_size=size, max_size=size),
        st.lists(st.integers(1, 4), min_size=size, max_size=size),
        st.lists(st.booleans(), min_size=size, max_size=size),
        st.integers(0, 1 << 30),
    )
)


def deliveries(script: Script, *, filtered: bool) -> tuple[dict[int, list[tuple[list[Piece], int]]], list[int], int]:
    """What each shard sends, cut at random; the positions that are to come out; the tail."""
    chance = random.Random(script.seed)
    position = 1
    expected: list[int] = []
    sent: dict[int, list[tuple[list[Piece], int]]] = {shard: [] for shard in range(4)}
    held: dict[int, list[Piece]] = {shard: [] for shard in range(4)}
    for shard, count, passes in zip(script.shards, script.counts, script.passes, strict=True):
        if passes or not filtered:
            held[shard].append(piece(shard, position, count))
            expected += range(position, position + count)
        position += count
        for each in range(4):
            if chance.random() < 0.4:
                sent[each].append((held[each], position))
                held[each] = []
    for shard in range(4):
        sent[shard].append((held[shard], position))
    return sent, expected, position


@given(SCRIPTS, st.booleans(), st.integers(1, 8))
def test_any_interleaving_comes_out_in_order(script: Script, filtered: bool, bytes_max: int) -> None:
    sent, expected, tail = deliveries(script, filtered=filtered)
    merge = Merge(1, None, is_filtered=filtered)
    assert merge.know(1, range(4)) == ([0, 1, 2, 3], [])
    chance = random.Random(script.seed)
    found: list[int] = []
    while any(sent.values()):
        shard = chance.choice([shard for shard, left in sent.items() if left])
        pieces, up_to = sent[shard].pop(0)
        merge.receive(shard, pieces, up_to, 1)
        if chance.random() < 0.5:
            taken = [record.position for record in records_of(merge.take(bytes_max))]
            found += taken
            assert not taken or merge.position > taken[-1]
            if not filtered:
                assert found == list(range(1, merge.position))
    while merge.position < tail:
        before = merge.position
        found += [record.position for record in records_of(merge.take(bytes_max))]
        assert merge.position > before
    assert found == expected


@given(SCRIPTS)
def test_a_bounded_merge_finishes_at_its_stop(script: Script) -> None:
    sent, expected, tail = deliveries(script, filtered=True)
    merge = Merge(1, tail, is_filtered=True)
    merge.know(1, range(4))
    for shard, parts in sent.items():
        for pieces, up_to in parts:
            merge.receive(shard, pieces, up_to, 1)
    found: list[int] = []
    while not merge.is_finished:
        found += [record.position for record in records_of(merge.take(1 << 20))]
    assert found == expected


def test_a_quiet_shard_holds_a_filtered_record_back_until_its_watermark() -> None:
    merge = Merge(1, None, is_filtered=True)
    merge.know(1, [0, 1])
    merge.receive(0, [piece(0, 5, 1)], 6, 1)
    assert merge.take(100) == []
    assert merge.position == 1
    assert merge.laggards() == [1]
    merge.receive(1, [], 5, 1)
    assert merge.take(100) == []
    assert merge.position == 5
    merge.receive(1, [], 6, 1)
    assert [record.position for record in records_of(merge.take(100))] == [5]


def test_a_watermark_of_an_unknown_view_does_not_count() -> None:
    merge = Merge(1, None, is_filtered=True)
    merge.know(1, [0])
    merge.receive(0, [piece(0, 3, 1)], 4, 2)
    assert merge.take(100) == []
    assert merge.wanted_view == 2
    assert merge.know(2, [0, 1]) == ([1], [])
    assert merge.take(100) == []  # the new shard may have something before it
    merge.receive(1, [piece(1, 2, 1)], 4, 2)
    assert [record.position for record in records_of(merge.take(100))] == [2, 3]
    assert merge.wanted_view == 0


def test_a_shard_that_is_gone_holds_nothing_back() -> None:
    merge = Merge(1, None, is_filtered=True)
    merge.know(1, [0, 1])
    merge.receive(0, [piece(0, 1, 2)], 3, 1)
    assert merge.take(100) == []
    assert merge.know(2, [0]) == ([], [1])
    assert [record.position for record in records_of(merge.take(100))] == [1, 2]
    assert merge.know(1, [0, 1]) == ([], [])  # an older view changes nothing


def test_no_ops_advance_the_position_and_are_not_records() -> None:
    merge = Merge(1, None, is_filtered=False)
    merge.know(1, [0, 1])
    merge.receive(1, [Piece(1, 1, 4, None, 64, 1)], 4, 1)
    merge.receive(0, [piece(0, 4, 1)], 5, 1)
    assert [record.position for record in records_of(merge.take(100))] == [4]
    assert merge.position == 5


@given(SCRIPTS, st.lists(st.integers(0, 5), min_size=30, max_size=30), st.integers(1, 8))
def test_empty_positions_are_passed_over_and_no_record_is(script: Script, gaps: list[int], bytes_max: int) -> None:
    """A range of a log with gaps: each piece waits for the one that it follows, and the end for every shard."""
    position = follows = 1
    sent: dict[int, list[Piece]] = {shard: [] for shard in range(4)}
    expected: list[int] = []
    for shard, count, gap in zip(script.shards, script.counts, gaps, strict=False):
        start = position + gap
        sent[shard].append(piece(shard, start, count)._replace(follows=follows))
        expected += range(start, start + count)
        position = follows = start + count
    stop = position + gaps[-1]
    chance = random.Random(script.seed)
    merge = Merge(1, stop, is_filtered=False)
    merge.know(1, range(4))
    found: list[int] = []
    waiting = {shard: [*left, None] for shard, left in sent.items()}
    while any(waiting.values()):
        shard = chance.choice([shard for shard, left in waiting.items() if left])
        next_piece = waiting[shard].pop(0)
        up_to = stop if next_piece is None else next_piece.stop
        merge.receive(shard, [] if next_piece is None else [next_piece], up_to, 1)
        while taken := merge.take(bytes_max):
            found += [record.position for record in records_of(taken)]
        assert found == expected[: len(found)]
    assert found == expected
    assert merge.is_finished


def test_a_piece_waits_for_what_it_follows_and_for_nothing_else() -> None:
    merge = Merge(1, None, is_filtered=False)
    merge.know(1, [0, 1])
    merge.receive(1, [piece(1, 9, 1)._replace(follows=4)], 10, 1)
    assert merge.take(100) == []
    merge.receive(0, [piece(0, 3, 1)._replace(follows=1)], 4, 1)
    assert [record.position for record in records_of(merge.take(100))] == [3, 9]


def test_a_watermark_passes_no_record_that_is_followed() -> None:
    """Somebody has said too much: what follows a record that never came does not come either."""
    merge = Merge(1, None, is_filtered=False)
    merge.know(1, [0, 1])
    merge.receive(1, [piece(1, 9, 1)._replace(follows=4)], 20, 1)
    merge.receive(0, [], 20, 1)
    assert merge.take(100) == []
    assert merge.position == 1


def test_a_loss_is_told_in_its_place() -> None:
    for is_filtered in (False, True):
        merge = Merge(1, None, is_filtered=is_filtered)
        merge.know(1, [0, 1])
        loss = Lost("gone", start=3, stop=5)
        merge.receive(1, [Piece(1, 3, 5, None, 0, 3, loss)], 5, 1)
        assert (merge.take(100), merge.loss) == ([], None)  # the other shard may have what comes before
        merge.receive(0, [piece(0, 1, 2), piece(0, 5, 1)], 6, 1)
        assert [record.position for record in records_of(merge.take(100))] == [1, 2]
        assert (merge.take(100), merge.loss) == ([], loss)
        assert merge.position == 3


STREWN = st.tuples(
    st.lists(st.tuples(st.integers(0, 2), st.booleans(), st.integers(1, 3)), min_size=1, max_size=25),
    st.integers(0, 1 << 30),
)
"""Stretches of a log: the shard, whether it has lost them, and how many records they are."""


@given(STREWN)
def test_what_no_shard_has_is_lost_where_records_are_strewn(
    drawn: tuple[list[tuple[int, bool, int]], int],
) -> None:
    stretches, seed = drawn
    chance = random.Random(seed)
    position, there, gone = 1, list[int](), list[int]()
    sent: dict[int, list[tuple[int, int]]] = {0: [], 1: [], 2: []}
    for shard, is_lost, count in stretches:
        (gone if is_lost else there).extend(range(position, position + count))
        if not is_lost:
            sent[shard].append((position, count))
        position += count
    at, found, lost = 1, list[int](), list[int]()
    while at < position:
        merge = Merge(at, position, is_filtered=False)
        merge.know(1, sent)
        told = dict.fromkeys(sent, at)
        while not merge.is_finished and merge.loss is None:
            shard = chance.choice([each for each in sent if told[each] < position])
            up_to = chance.randint(told[shard] + 1, position)
            pieces = [
                piece(shard, max(start, told[shard]), min(start + count, up_to) - max(start, told[shard]))
                for start, count in sent[shard]
                if start < up_to and told[shard] < start + count
            ]
            strewn = [(max(1, told[shard]), up_to)] if gone and shard == 0 else []
            merge.receive(shard, pieces, up_to, 1, strewn)
            told[shard] = up_to
            while taken := merge.take(1 << 20):
                found += [record.position for record in records_of(taken)]
        if merge.loss is None:
            break
        assert merge.loss.start == merge.position
        lost += range(merge.loss.start, merge.loss.stop)
        at = merge.loss.stop
    assert (found, lost) == (there, gone)


def test_whoever_filters_is_told_of_all_places_that_lost_records_may_have_had() -> None:
    merge = Merge(1, 20, is_filtered=True)
    merge.know(1, [0, 1])
    merge.receive(0, [piece(0, 2, 1)], 20, 1, [(4, 9)])
    merge.receive(1, [piece(1, 3, 1), piece(1, 6, 1)], 5, 1)
    assert [each.start for each in merge.take(1 << 20)] == [2, 3]
    assert merge.take(1 << 20) == []
    assert isinstance(merge.loss, Lost)
    assert (merge.loss.start, merge.loss.stop) == (4, 9)
