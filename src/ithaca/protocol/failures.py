"""Errors as messages and back: by the name of their class, with what they carry."""

import inspect
from typing import overload

from ithaca.model import errors
from ithaca.model.errors import IthacaError, Overloaded, ProtocolError
from ithaca.model.limits import FAILURE_TEXT_CHARACTERS_MAX
from ithaca.protocol.greeting import Failure

_KINDS: dict[str, type[IthacaError]] = {
    name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, IthacaError)
}


def _carried(kind: type[IthacaError]) -> dict[str, type]:
    """What errors of this class carry beside their message: names and types."""
    parameters = inspect.signature(kind.__init__).parameters.values()
    return {each.name: each.annotation for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY}


def _unsaid(kind: type[IthacaError]) -> dict[str, int | str]:
    """What errors of this class carry only if it is something else than this: peers of earlier versions never do."""
    return {"retry_after_ms": 0} if kind is Overloaded else {}


_CARRIED = {kind: _carried(kind) for kind in _KINDS.values()}
_UNSAID = {kind: _unsaid(kind) for kind in _KINDS.values()}


def failure_of(error: IthacaError) -> Failure:
    """The message that says this error; of a class outside the tree, the nearest one in it.

    >>> from ithaca.model.errors import Trimmed
    >>> failure_of(Trimmed("gone", first=7)).detail
    {'first': 7}
    """
    kind = next(each for each in type(error).__mro__ if each in _CARRIED)
    detail = {name: _plain(getattr(error, name)) for name in _CARRIED[kind]}
    detail = {name: value for name, value in detail.items() if _UNSAID[kind].get(name) != value}
    return Failure(kind.__name__, _plain(str(error)), detail, error.outcome_unknown)


def error_of(failure: Failure) -> IthacaError:
    """The error that a message says; a kind that this version does not know is the root of the tree.

    >>> from ithaca.model.errors import Trimmed
    >>> error_of(failure_of(Trimmed("gone", first=7))).first
    7
    """
    kind = _KINDS.get(failure.name, IthacaError)
    error = kind.__new__(kind)
    error.args = (failure.message,)
    for name, expected in _CARRIED[kind].items():
        value = failure.detail.get(name, _UNSAID[kind].get(name))
        if not isinstance(value, expected):
            return ProtocolError(f"a peer failed with {failure.name} and did not say its {name}: {failure.message}")
        setattr(error, name, value)
    if failure.outcome_unknown != kind.outcome_unknown:
        error.outcome_unknown = failure.outcome_unknown
    return error


@overload
def _plain(value: str) -> str: ...
@overload
def _plain(value: int) -> int: ...
def _plain(value: int | str) -> int | str:
    """Text of a length that a peer takes, without the halves of surrogate pairs that file names may carry."""
    if isinstance(value, int):
        return value
    return value[:FAILURE_TEXT_CHARACTERS_MAX].encode("utf-8", "backslashreplace").decode()
