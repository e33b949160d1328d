"""Snapshots of versions that knew of no consumers are read, and written byte for byte as they were while there are
none; with consumers they are longer, and come back as they were."""

from collections.abc import Callable
from typing import NamedTuple

import pytest

from ithaca.consumers.table import ConsumerChanges, ConsumerTable
from ithaca.engines.corfu.sequencing.state import ProjectionState
from ithaca.engines.raft.replog.entries import ChangeConsumers
from ithaca.engines.raft.replog.state import LogState
from ithaca.engines.scalog.ordering.state import OrderingState
from ithaca.model.consumers import CommitPosition, OpenConsumer
from ithaca.storage.state import ConsumersChanged, LaneState, control_entry
from ithaca.wire.batch import SNAPSHOT
from ithaca.wire.build import bookkeeping

SCALOG = bytes.fromhex(
    "92029c0394d92430303030303030302d303030302d303030302d303030302d303030303030303030303037a67363616c6f67"
    "64040001010098c4080100000000000000c4080000000000000000c4080000000000000000c408010000000000000090c400"
    "c400c400940291990000c291950092a161010101c3000101a46c69766500909092019090909490909090"
)
RAFT = bytes.fromhex(
    "0000000000000000310000009394d92430303030303030302d303030302d303030302d303030302d30303030303030303030"
    "3037a472616674000400020f000000919501a8696d706f72746572010190"
)
CORFU = bytes.fromhex(
    "92019a0297a5666f756e64d92430303030303030302d303030302d303030302d303030302d303030303030303030303039929301"
    "92a4756e697401d92430303030303030302d303030302d303030302d303030302d303030303030303030303031930292a475"
    "6e697402d92430303030303030302d303030302d303030302d303030302d3030303030303030303030329192010201649096"
    "019192009192010292930192a4756e697401d92430303030303030302d303030302d303030302d303030302d303030303030"
    "303030303031930292a4756e697402d92430303030303030302d303030302d303030302d303030302d303030303030303030"
    "3030320100c2640100029102019193a8696d706f727465720101"
)
LANE = bytes.fromhex(
    "83a87472696d5f6c736e00a873657373696f6e7383b06e6578745f70726f64756365725f696401a873657373696f6e7390a9"
    "666f7267657466756cc2a96861735f686f6c6573c2"
)
"""Written by the version before the first that knew of consumers."""

CHANGES = ConsumerChanges(
    (OpenConsumer("billing", 7, 5), OpenConsumer("audit", 8, 1), CommitPosition("billing", 0, 2, 9)), 1_700_000_000
)
PACKED = bytes.fromhex(
    "9305ce6553f1009296a561756469740304ce6553f1009193040801c296a762696c6c696e670105ce6553f1009193020709c2"
)
"""The consumers in each of them: this format never changes but for fields at the end."""


class Format(NamedTuple):
    """How the consumers of one state come out of its snapshot, and back."""

    golden: bytes
    again: Callable[[bytes], bytes]
    """The snapshot of the state of a snapshot."""
    changed: Callable[[bytes], tuple[bytes, ConsumerTable]]
    """The snapshot after `CHANGES`, and the consumers of the state that it is restored to."""


def scalog(data: bytes) -> tuple[bytes, ConsumerTable]:
    state = OrderingState.restored(data)
    state.apply(state.index + 1, CHANGES)
    return state.snapshot(), OrderingState.restored(state.snapshot()).consumers


def raft(data: bytes) -> tuple[bytes, ConsumerTable]:
    state = LogState.restored(data)
    state.apply(ChangeConsumers(CHANGES))
    snapshot = b"".join(state.snapshot())
    return snapshot, LogState.restored(snapshot).consumers


def corfu(data: bytes) -> tuple[bytes, ConsumerTable]:
    state = ProjectionState.restored(data)
    state.apply(state.index + 1, CHANGES)
    return state.snapshot(), ProjectionState.restored(state.snapshot()).consumers


def lane_state(data: bytes) -> LaneState:
    return LaneState.restored(bookkeeping(SNAPSHOT, data).placed(0, 0))


def lane(data: bytes) -> tuple[bytes, ConsumerTable]:
    state = lane_state(data)
    state.apply(control_entry(ConsumersChanged(CHANGES)).placed(0, 0))
    snapshot = bytes(state.snapshot_entry().control_body())
    return snapshot, lane_state(snapshot).consumers


FORMATS = {
    "scalog": Format(SCALOG, lambda data: OrderingState.restored(data).snapshot(), scalog),
    "raft": Format(RAFT, lambda data: b"".join(LogState.restored(data).snapshot()), raft),
    "corfu": Format(CORFU, lambda data: ProjectionState.restored(data).snapshot(), corfu),
    "lane": Format(LANE, lambda data: bytes(lane_state(data).snapshot_entry().control_body()), lane),
}


@pytest.mark.parametrize("of", FORMATS.values(), ids=FORMATS)
def test_a_snapshot_without_consumers_is_as_it_was(of: Format) -> None:
    assert of.again(of.golden) == of.golden


@pytest.mark.parametrize("of", FORMATS.values(), ids=FORMATS)
def test_a_snapshot_with_consumers_brings_them_back(of: Format) -> None:
    snapshot, consumers = of.changed(of.golden)
    expected = ConsumerTable()
    expected.apply(CHANGES)
    assert consumers.packed() == expected.packed()
    assert of.again(snapshot) == snapshot
    assert PACKED in snapshot
