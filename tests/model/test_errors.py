"""The error tree: the one that is printed is the one that exists."""

import inspect
import re

import pytest

from ithaca.model import errors
from ithaca.model.errors import ConfigError, Corrupt, DeadlineExceeded, IthacaError, NotWritten


def classes() -> dict[str, type[IthacaError]]:
    return {name: kind for name, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, IthacaError)}


def printed() -> dict[str, str]:
    """Each error of the tree in the docstring, with its parent."""
    parents: dict[str, str] = {}
    branch = ""
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"[├└│] ?(\w+)?(?: \(\w+\))?\s*(.*)", line)
        if found is None:
            continue
        if found[1]:
            branch = found[1]
            parents[branch] = "IthacaError"
        for leaf in re.findall(r"([A-Z]\w+)", re.sub(r"\([^)]*\)", "", found[2])):
            parents[leaf] = branch
    return parents


def test_the_printed_tree_is_the_tree() -> None:
    actual = {name: kind.__bases__[0].__name__ for name, kind in classes().items() if kind is not IthacaError}
    assert printed() == actual


def test_builtin_handlers_catch_what_they_should() -> None:
    builtins = {"InvalidInput": ValueError, "PositionError": LookupError, "DeadlineExceeded": TimeoutError}
    for name, builtin in builtins.items():
        assert issubclass(classes()[name], builtin)


def test_the_three_answers() -> None:
    assert NotWritten("later", tail=3).retry
    assert NotWritten("later", tail=3).tail == 3
    assert DeadlineExceeded("too late").outcome_unknown
    assert not Corrupt("broken").retry


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ConfigError("wrong", file="a.toml", line=3), "a.toml:3: wrong"),
        (ConfigError("wrong", file="ITHACA_X"), "ITHACA_X: wrong"),
        (ConfigError("wrong"), "wrong"),
        (Corrupt("broken", file="0.seg", offset=64), "0.seg at byte 64: broken"),
        (Corrupt("broken"), "broken"),
    ],
)
def test_places_stand_in_the_message(error: IthacaError, message: str) -> None:
    assert str(error) == message
