"""Tries what public functions do when one of their arguments is nonsense: they raise `InvalidInput`, which names it."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ithaca.model.errors import InvalidInput, Unsupported


class Nonsense:
    """No argument of anything."""

    def __repr__(self) -> str:
        return "nonsense"


NONSENSE = Nonsense()
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_NAMED = (*_POSITIONAL, inspect.Parameter.KEYWORD_ONLY)
Beside = Mapping[tuple[str, str], Mapping[str, Any]]
"""What some argument of some function needs beside it."""


def faults(
    function: Callable[..., Any],
    usual: Mapping[str, Any],
    beside: Beside | None = None,
    *,
    name: str = "",
    of: Callable[..., Any] | None = None,
) -> Iterator[str]:
    """Every argument with which the function does something else than refuse it.

    The others are as in `usual`, if it needs them. `of` is where its parameters are read, if that is elsewhere.
    """
    name = name or function.__name__
    parameters = [
        each
        for each in inspect.signature(of or function).parameters.values()
        if each.name != "self" and each.kind in _NAMED
    ]
    for wrong in parameters:
        needed = [each.name for each in parameters if each.default is inspect.Parameter.empty and each is not wrong]
        given = {each: usual[each] for each in needed}
        given |= (beside or {}).get((name.rpartition(".")[2], wrong.name), {})
        given[wrong.name] = NONSENSE
        plain = [given.pop(each.name) for each in parameters if each.kind in _POSITIONAL and each.name in given]
        what = f"{name}({wrong.name}=...)"
        try:
            function(*plain, **given)
        except InvalidInput as error:
            if "nonsense" not in str(error).lower():
                yield f"{what} does not say what was given: {error}"
        except Unsupported:
            pass
        except Exception as error:
            yield f"{what} is {error!r}"
        else:
            yield f"{what} takes it"


def faults_of(
    owner: Any,
    of: type,
    usual: Mapping[str, Any],
    beside: Beside | None = None,
    *,
    without: frozenset[str] = frozenset(),
) -> Iterator[str]:
    """The same of every public method that the class has and that takes something."""
    for name, method in inspect.getmembers(of, inspect.isfunction):
        if not name.startswith("_") and name not in without and len(inspect.signature(method).parameters) > 1:
            yield from faults(getattr(owner, name), usual, beside, name=f"{of.__name__}.{name}", of=method)
