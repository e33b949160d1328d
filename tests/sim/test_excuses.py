"""What a fault explains is allowed, and the same error without the fault is a violation."""

import errno
from collections.abc import Iterator

import pytest

from ithaca.model.errors import (
    Corrupt,
    DeadlineExceeded,
    Fenced,
    InvalidInput,
    IthacaError,
    NoSuchShard,
    StorageError,
    StorageFull,
    Trimmed,
    Unavailable,
)
from ithaca.sim.configuration import configuration_of
from ithaca.sim.excuses import is_allowed, is_explained
from ithaca.sim.host import Host
from ithaca.sim.world import World


@pytest.fixture
def world() -> Iterator[World]:
    with World(configuration_of(1)) as world:
        yield world


def _replica(world: World) -> Host:
    return next(host for host in world.hosts.values() if host.is_storage)


@pytest.mark.parametrize("error", [Fenced("a sync failed"), OSError(errno.EIO, "input/output error")])
def test_a_server_is_fenced_by_a_sync_that_failed(world: World, error: Exception) -> None:
    host = _replica(world)
    assert not is_explained(host, error)
    host.sync_failed_ns = 1
    assert is_explained(host, error)


def test_damage_is_met_where_a_bit_was_flipped(world: World) -> None:
    host = _replica(world)
    assert not is_explained(host, Corrupt("bad bytes"))
    assert not is_allowed(world, Corrupt("bad bytes"), "read")
    host.disk.make_directory("/lanes")
    host.disk.open("/lanes/some", create=True).write(0, [b"some"])
    host.flip_bit("/lanes/some", 1, 1)
    assert is_explained(host, Corrupt("bad bytes"))
    assert is_allowed(world, Corrupt("bad bytes"), "read")


def test_damage_after_a_power_loss_looks_like_a_torn_write_unless_a_mark_stands_behind(world: World) -> None:
    host = _replica(world)
    host.disk.make_directory("/lanes")
    host.disk.open("/lanes/some", create=True).write(0, [b"some"])
    host.disk.open("/lanes/some").sync()
    for directory in ("/", "/lanes"):
        host.disk.sync_directory(directory)
    world.lose_power(host)
    host.flip_bit("/lanes/some", 1, 1, has_mark_behind=True)
    assert not host.flip_is_hidden
    host.flip_bit("/lanes/some", 2, 1)
    assert host.flip_is_hidden


def test_a_server_without_descriptors_may_end_when_it_starts_and_refuse_what_needs_a_file(world: World) -> None:
    host = _replica(world)
    errors = (StorageError("Too many open files"), OSError(errno.EMFILE, "too many open files"), StorageFull("no file"))
    assert not any(is_explained(host, error) for error in errors)
    host.disk.lacks_descriptors = True
    with pytest.raises(OSError, match="Too many open files"):
        host.disk.open("/some", create=True)
    assert all(is_explained(host, error) for error in errors)
    assert is_allowed(world, StorageFull("no file"), "append")
    assert not is_explained(host, Fenced("a sync failed")), "nothing was in doubt"


def test_space_is_missed_where_there_was_none(world: World) -> None:
    host = _replica(world)
    full = StorageFull("no space")
    assert not is_explained(host, full)
    assert not is_allowed(world, full, "append")
    host.disk.capacity_bytes = 2
    with pytest.raises(OSError, match="No space"):
        host.disk.open("/some", create=True).write(0, [b"some"])
    assert is_explained(host, full)
    assert is_allowed(world, full, "append")


def test_what_is_only_ordered_misses_space_where_an_orderer_has_none(world: World) -> None:
    full = StorageFull("no space")
    _replica(world).disk.lacked_space = True
    assert not is_allowed(world, full, "trim")
    assert not is_allowed(world, full, "session")
    world.hosts["orderer-1"].disk.lacked_space = True
    assert is_allowed(world, full, "trim")
    assert is_allowed(world, full, "session")
    assert is_allowed(world, full, "append")
    assert not is_allowed(world, full, "read")


def test_nothing_explains_the_rest(world: World) -> None:
    host = _replica(world)
    for error in (Unavailable("not now"), OSError(errno.EMFILE, "too many files"), NoSuchShard("which")):
        assert not is_explained(host, error)


@pytest.mark.parametrize(
    ("error", "call", "allowed"),
    [
        (DeadlineExceeded("late"), "append", True),
        (InvalidInput("what"), "append", False),
        (Trimmed("gone", first=9), "append", False),
        (Trimmed("gone", first=9), "read", False),
    ],
)
def test_a_client_is_told_what_its_call_documents(world: World, error: IthacaError, call: str, allowed: bool) -> None:
    assert is_allowed(world, error, call) is allowed


def test_trimmed_is_told_once_something_was(world: World) -> None:
    world.ordered.add(tail=20, time_us=5, first=9)
    assert is_allowed(world, Trimmed("gone", first=9), "read")
    world.met(InvalidInput("what"), "read")
    assert world.violation is not None
    assert world.violation.rule == "explained"
