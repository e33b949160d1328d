"""What an engine need not have: refused by the interface itself, with the engines that have it."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from ithaca.model import interface
from ithaca.model.engine import FEATURES, Feature, engines_with
from ithaca.model.errors import Unsupported
from ithaca.model.interface import awaited
from ithaca.model.interface.unsupported import unsupported


def bare(promised: type[Any]) -> Any:
    """An instance that has nothing but the defaults."""
    abstract = dict.fromkeys(promised.__dict__.get("__abstractmethods__", ()), lambda *_, **__: None)
    return type("Bare", (promised,), abstract)()


def optional(promised: type[Any]) -> list[str]:
    required = promised.__dict__.get("__abstractmethods__", frozenset())
    methods = [name for name, _ in inspect.getmembers(promised, inspect.isfunction) if not name.startswith("_")]
    return [name for name in methods if name not in required]


async def called(method: Callable[..., Any]) -> None:
    """The method called, and awaited if it is a coroutine, with None for what it must be given."""
    parameters = inspect.signature(method).parameters.values()
    answer = method(**{each.name: None for each in parameters if each.default is inspect.Parameter.empty})
    if inspect.isawaitable(answer):
        await answer


CASES = [
    (kind, name)
    for kind in (interface.ClusterLog, interface.Admin, awaited.ClusterLog, awaited.Admin)
    for name in optional(kind)
]


def test_there_are_optional_methods() -> None:
    assert {"prepare", "publish", "trim", "session", "append_to_shard"} <= set(optional(interface.Log)) | set(
        optional(interface.ClusterLog)
    )
    assert "add_shard" in optional(awaited.Admin)


@pytest.mark.parametrize(("promised", "name"), CASES, ids=lambda each: getattr(each, "__module__", each))
async def test_what_an_engine_does_not_have_is_refused_and_says_who_has_it(promised: type[Any], name: str) -> None:
    with pytest.raises(Unsupported, match=f"this log has no .*: use a cluster with the engine ({'|'.join(FEATURES)})"):
        await called(getattr(bare(promised), name))


def test_a_cluster_without_administration_has_one_that_refuses() -> None:
    with pytest.raises(Unsupported, match="shards"):
        bare(interface.ClusterLog).admin.shards()


@pytest.mark.parametrize("feature", Feature)
def test_a_refusal_names_every_engine_that_can(feature: Feature) -> None:
    assert engines_with(feature) == [name for name, features in FEATURES.items() if feature in features]
    for name in engines_with(feature):
        assert name in str(unsupported(feature))
