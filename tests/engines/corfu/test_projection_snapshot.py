"""Snapshots of the projections: those of every version are read, and this version writes the same bytes for ever."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engines.corfu.test_projection_state import Group, following

from ithaca.engines.corfu.sequencing.commands import OpenSession, Settled, TrimLog
from ithaca.engines.corfu.sequencing.snapshot import VERSION
from ithaca.engines.corfu.sequencing.state import ProjectionState
from ithaca.model.errors import Corrupt, FormatTooNew

GOLDEN = bytes.fromhex(
    "92019a0697a5666f756e64d92430303030303030302d303030302d303030302d303030302d30303030303030303030303994"
    "930192a4756e697401d92430303030303030302d303030302d303030302d303030302d303030303030303030303031930292"
    "a4756e697402d92430303030303030302d303030302d303030302d303030302d303030303030303030303032930392a4756e"
    "697403d92430303030303030302d303030302d303030302d303030302d303030303030303030303033930492a4756e697404"
    "d92430303030303030302d303030302d303030302d303030302d303030303030303030303034929201029203040164909602"
    "9392009292010292030492089092649292010292030494930192a4756e697401d92430303030303030302d303030302d3030"
    "30302d303030302d303030303030303030303031930292a4756e697402d92430303030303030302d303030302d303030302d"
    "303030302d303030303030303030303032930392a4756e697403d92430303030303030302d303030302d303030302d303030"
    "302d303030303030303030303033930492a4756e697404d92430303030303030302d303030302d303030302d303030302d30"
    "30303030303030303030340164c3cc96ce002000000504920202019193a8696d706f727465720102"
)
"""Version 1."""


def state() -> ProjectionState:
    group = Group()
    for command in (OpenSession("importer"), following(), Settled(2), OpenSession("importer"), TrimLog(2, 1 << 21)):
        group.apply(command)
    return group.state


def unversioned(*, has_sizes: bool) -> bytes:
    """As it was written before there were versions."""
    items = msgspec.msgpack.decode(GOLDEN)[1]
    return msgspec.msgpack.encode(items if has_sizes else items[:7] + items[8:])


def test_this_version_is_written_as_ever() -> None:
    assert state().snapshot() == GOLDEN
    assert ProjectionState.restored(GOLDEN).snapshot() == GOLDEN


@pytest.mark.parametrize("has_sizes", [True, False])
def test_snapshots_without_a_version_are_read(has_sizes: bool) -> None:
    restored = ProjectionState.restored(unversioned(has_sizes=has_sizes))
    assert restored.sizes == (2, 2)
    assert restored.snapshot() == GOLDEN


def test_a_later_version_is_named() -> None:
    with pytest.raises(FormatTooNew, match="version 2"):
        ProjectionState.restored(msgspec.msgpack.encode((VERSION + 1, "whatever comes")))


@given(st.binary(max_size=64) | st.integers(0, len(GOLDEN) - 1).map(lambda end: GOLDEN[:end]))
def test_what_is_no_snapshot_is_refused(data: bytes) -> None:
    with pytest.raises((Corrupt, FormatTooNew)):
        ProjectionState.restored(data)
