"""Errors as messages and back: by the name of their class, with what they carry."""

from ithaca.model import errors
from ithaca.model.errors import IthacaError
from ithaca.protocol.messages import Failure

_KINDS: dict[str, type[IthacaError]] = {
    name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, IthacaError)
}


def failure_of(error: IthacaError) -> Failure:
    """The message that says this error.

    >>> from ithaca.model.errors import Trimmed
    >>> failure_of(Trimmed("gone", first=7)).detail
    {'first': 7}
    """
    detail = {name: value for name, value in vars(error).items() if isinstance(value, int | str)}
    detail.pop("outcome_unknown", None)
    return Failure(type(error).__name__, str(error), detail, error.outcome_unknown)


def error_of(failure: Failure) -> IthacaError:
    """The error that a message says; a kind that this version does not know is the root of the tree.

    >>> from ithaca.model.errors import Trimmed
    >>> error_of(failure_of(Trimmed("gone", first=7))).first
    7
    """
    kind = _KINDS.get(failure.name, IthacaError)
    error = kind.__new__(kind)
    error.args = (failure.message,)
    error.__dict__.update(failure.detail)
    if failure.outcome_unknown != kind.outcome_unknown:
        error.outcome_unknown = failure.outcome_unknown
    return error
