"""Errors as messages: whoever is told knows what the other side knew."""

from collections.abc import Iterator
from typing import Any

import pytest

from ithaca.model import errors
from ithaca.model.errors import (
    Corrupt,
    DeadlineExceeded,
    IthacaError,
    ProtocolError,
    StorageError,
    Trimmed,
    Unavailable,
)
from ithaca.model.limits import HELLO_BYTES_MAX
from ithaca.protocol.codec import decode_message, encode_message
from ithaca.protocol.failures import error_of, failure_of
from ithaca.protocol.greeting import Failure
from ithaca.wire.frame import FrameDecoder

DETAIL: dict[type[IthacaError], dict[str, Any]] = {
    errors.ConfigError: {"file": "ithaca.toml", "line": 3},
    errors.NotWritten: {"tail": 7},
    errors.Trimmed: {"first": 7},
    errors.Lost: {"start": 3, "stop": 9},
    errors.LogInUse: {"pid": 42},
    errors.NotAllowed: {"right": "read", "prefix": "b'a/'"},
    errors.Overloaded: {"retry_after_ms": 250},
    errors.FormatTooNew: {"found": 9, "supported": 1},
    errors.Corrupt: {"file": "0.seg", "offset": 64},
    errors.EngineMismatch: {"engine": "corfu"},
    errors.WrongVersion: {"found": 3, "supported": "1, 2"},
    errors.TaskFailed: {"position": 7, "step": "publish"},
    errors.UndoFailed: {"position": 7, "step": "undo"},
    errors.PublishConflict: {"writer": "w", "key": 7, "owner": "me", "position": 3, "count": 2},
}


def tree(kind: type[IthacaError] = IthacaError) -> Iterator[type[IthacaError]]:
    yield kind
    for child in kind.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from tree(child)


def told(error: IthacaError) -> IthacaError:
    """The error after a trip to somebody else."""
    (frame,) = FrameDecoder().feed(b"".join(map(bytes, encode_message(failure_of(error)))))
    message = decode_message(frame).message
    assert isinstance(message, Failure)
    return error_of(message)


@pytest.mark.parametrize("kind", list(tree()), ids=lambda kind: kind.__name__)
def test_every_error_comes_back_as_it_was(kind: type[IthacaError]) -> None:
    error = kind("the message", **DETAIL.get(kind, {}))
    back = told(error)
    assert type(back) is kind
    assert str(back) == str(error)
    assert vars(back) == vars(error)
    assert (back.retry, back.refresh, back.outcome_unknown) == (error.retry, error.refresh, error.outcome_unknown)
    with pytest.raises(kind, match="the message"):
        raise back


@pytest.mark.parametrize(("kind", "outcome_unknown"), [(Unavailable, True), (DeadlineExceeded, False)])
def test_an_outcome_that_differs_from_its_class_is_told(kind: type[IthacaError], outcome_unknown: bool) -> None:
    error = kind("hm")
    error.outcome_unknown = outcome_unknown
    assert told(error).outcome_unknown is outcome_unknown


def test_an_error_of_another_package_is_told_as_the_nearest_known() -> None:
    class Melted(StorageError):
        pass

    back = told(Melted("the disk melted"))
    assert type(back) is StorageError
    assert str(back) == "the disk melted"


def test_an_error_of_a_newer_version_is_the_root() -> None:
    back = error_of(Failure("QuotaExceeded", "enough", {"quota": 7}, True))
    assert type(back) is IthacaError
    assert str(back) == "enough"
    assert back.outcome_unknown


@pytest.mark.parametrize("name", ["IthacaError.x", "Any", "ClassVar", "_restored", "__builtins__", ""])
def test_only_errors_are_looked_up(name: str) -> None:
    assert type(error_of(Failure(name, "hm"))) is IthacaError


@pytest.mark.parametrize("detail", [{}, {"first": "seven"}, {"last": 7}])
def test_an_error_without_what_it_carries_is_a_protocol_error(detail: dict[str, int | str]) -> None:
    back = error_of(Failure("Trimmed", "gone", detail))
    assert type(back) is ProtocolError
    assert "Trimmed and did not say its first: gone" in str(back)


def test_a_peer_sets_nothing_but_what_an_error_carries() -> None:
    back = error_of(Failure("Trimmed", "gone", {"first": 7, "retry": 1, "args": "x", "__class__": "y"}))
    assert isinstance(back, Trimmed)
    assert vars(back) == {"first": 7}
    assert back.retry is False


def test_any_text_can_be_told_and_fits_into_the_answer_to_a_hello() -> None:
    assert str(told(Corrupt("\udcff", file="/a\udc80b", offset=1))) == "/a\\udc80b at byte 1: \\udcff"
    frame = b"".join(map(bytes, encode_message(failure_of(ProtocolError("\U0001f30a" * 100_000)))))
    assert len(frame) <= HELLO_BYTES_MAX
