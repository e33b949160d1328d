"""What `ithaca.open` and `ithaca.connect` take, in both twins, and what they say of what they do not."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ithaca
import ithaca.aio
from ithaca.model.errors import InvalidInput
from ithaca.model.records import Retention


async def _opened(**options: Any) -> None:
    async with ithaca.aio.open(**options):
        pass


async def _connected(*arguments: Any, **options: Any) -> None:
    async with ithaca.aio.connect(*arguments, **options):
        pass


def open_awaited(path: Any, **options: Any) -> None:
    asyncio.run(_opened(path=path, **options))


def open_blocking(path: Any, **options: Any) -> None:
    ithaca.open(path, **options).close()


def connect_awaited(*arguments: Any, **options: Any) -> None:
    asyncio.run(_connected(*arguments, **options))


@pytest.mark.parametrize("opener", [open_blocking, open_awaited])
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"retention": "7d"}, r"retention is '7d': write Retention\(age=\"7d\"\)"),
        ({"retention": 5}, "retention is 5: write Retention"),
        ({"retention": {"age": 1}}, "retention is {'age': 1}: write Retention"),
        ({"segment_bytes": "big"}, "segment_bytes is 'big': use a whole number"),
        ({"mode": "w"}, 'use "a" to append'),
        ({"durability": "none"}, "use one of fsync, os"),
    ],
)
def test_options_are_checked(tmp_path: Path, opener: Callable[..., None], options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        opener(tmp_path / "log", **options)
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize("opener", [open_blocking, open_awaited])
def test_paths_are_checked(opener: Callable[..., None]) -> None:
    for wrong in (None, 7, ""):
        with pytest.raises(InvalidInput, match="path is"):
            opener(wrong)


@pytest.mark.parametrize("opener", [open_blocking, open_awaited])
def test_the_home_directory_is_filled_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opener: Callable[..., None]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    opener("~/events", retention=Retention(age="7d", bytes="10GB"), segment_bytes="64K")
    assert (tmp_path / "events" / "meta").exists()


@pytest.mark.parametrize("connect", [ithaca.connect, connect_awaited])
@pytest.mark.parametrize(
    ("bootstrap", "options", "said"),
    [
        (None, {}, "bootstrap is None: name the address of an orderer"),
        (7600, {}, "bootstrap is 7600"),
        ("127.0.0.1:7600", {"timeout": "soon"}, "timeout is 'soon': write it as"),
        ("127.0.0.1:7600", {"timeout": 0}, "use a positive number of seconds"),
        ("127.0.0.1:7600", {"timeout": None}, "timeout is None"),
        ("127.0.0.1:7600", {"inflight_bytes_max": "1X"}, "inflight_bytes_max is '1X': write it as"),
        ("127.0.0.1:7600", {"compression": ["lz4"]}, "lz4"),
        ("127.0.0.1:7600", {"shard_policy": 7}, "shard policy 7 is not known"),
    ],
)
def test_what_connecting_takes_is_checked(
    connect: Callable[..., Any], bootstrap: Any, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidInput, match=said):
        connect(bootstrap, **options)
