"""The public face: the twins agree, every public name explains itself, and every example runs."""

import doctest
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import ithaca
import ithaca.aio
from ithaca.model import errors, records

TWINS = [
    *("Admin", "ClusterLog", "Log", "PartWriter", "Pending", "PreparedAppends", "Records", "Session", "Speculation"),
    *("Subscription", "Consumer", "Consuming", "Transaction"),
]
# What a class needs to be iterated, entered and awaited is spelled differently, and means the same.
PROTOCOL = {
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
}


def public_members(kind: type) -> dict[str, Any]:
    """Public methods and properties, inherited ones included, and the dunders of `PROTOCOL`."""
    wanted = {*PROTOCOL, *PROTOCOL.values()}
    return {
        PROTOCOL.get(name, name): member
        for name, member in inspect.getmembers(kind)
        if not name.startswith("_") or name in wanted
    }


@pytest.mark.parametrize("name", TWINS)
def test_twins_have_the_same_members(name: str) -> None:
    sync, awaited = getattr(ithaca, name), getattr(ithaca.aio, name)
    assert public_members(sync).keys() == public_members(awaited).keys()


@pytest.mark.parametrize("name", TWINS)
def test_twins_take_the_same_parameters(name: str) -> None:
    sync, awaited = public_members(getattr(ithaca, name)), public_members(getattr(ithaca.aio, name))
    for member, function in sync.items():
        if isinstance(function, property):
            assert isinstance(awaited[member], property), member
            continue
        expected = inspect.signature(function).parameters.values()
        found = inspect.signature(awaited[member]).parameters.values()
        assert [(p.name, p.kind, p.default) for p in found] == [(p.name, p.kind, p.default) for p in expected], member


def implementations(kind: type) -> Iterator[type[Any]]:
    children: list[type[Any]] = type.__subclasses__(kind)
    for each in children:
        if each.__module__.startswith("ithaca.") and each.__module__ != kind.__module__:
            yield each
        yield from implementations(each)


@pytest.mark.parametrize("kind", [getattr(twin, name) for twin in (ithaca, ithaca.aio) for name in TWINS])
def test_implementations_have_the_defaults_that_the_interface_says(kind: type) -> None:
    for module in ("embedded.log", "embedded.aio", "client.sync.log", "engines.belfast.client.log"):
        importlib.import_module(f"ithaca.{module}")
    found = list(implementations(kind))
    assert found, "somebody implements it"
    for each in found:
        for name, member in public_members(each).items():
            said = getattr(kind, name, None)
            if not inspect.isfunction(said) or not inspect.isfunction(member):
                continue
            expected = {p.name: p.default for p in inspect.signature(said).parameters.values()}
            defaults = {p.name: p.default for p in inspect.signature(member).parameters.values() if p.name in expected}
            assert defaults.items() <= expected.items(), f"{each.__name__}.{name}"


WAITING = {
    "Log": "append append_many submit submit_many flush read first tail trim session close "
    "prepare open_part publish publish_once renew abort "
    "consumer consumers reset_consumer delete_consumer change_consumers group_members beat_group",
    "Admin": "add_shard finalize_shard shards add_orderer remove_orderer orderers "
    "add_replica remove_replica replace_replica sessions expire_session writers forget_writer "
    "units add_unit add_units replace_unit rebuild_units replace_sequencer missing declare_lost "
    "users add_user rotate_token revoke_user grant withdraw limit_user",
    "ClusterLog": "append append_many submit submit_many flush read first tail trim session close "
    "prepare open_part publish publish_once renew abort append_to_shard write fill trim_position status "
    "consumer consumers reset_consumer delete_consumer change_consumers group_members beat_group",
    "Consumer": "poll commit lag close",
    "Transaction": "append append_many",
    "Consuming": "consumer consumers reset_consumer delete_consumer change_consumers group_members beat_group",
    "PartWriter": "append_many finish abort",
    "PreparedAppends": "prepare open_part publish publish_once renew abort",
    "Session": "append append_many",
    "Pending": "result",
    "Records": "close take_batches to_arrow to_pandas to_polars",
    "Speculation": "close take",
    "Subscription": "close poll take_batches to_arrow to_pandas to_polars",
}


@pytest.mark.parametrize("name", TWINS)
def test_what_may_wait_is_a_coroutine(name: str) -> None:
    members = public_members(getattr(ithaca.aio, name))
    coroutines = {member for member, function in members.items() if inspect.iscoroutinefunction(function)}
    assert coroutines - set(PROTOCOL.values()) == set(WAITING[name].split())


def test_batches_are_the_same_class_in_both_twins() -> None:
    assert ithaca.aio.Batch is ithaca.Batch


def is_error(thing: object) -> bool:
    return inspect.isclass(thing) and issubclass(thing, errors.IthacaError)


def test_the_packages_export_the_same_names() -> None:
    # `aio` is the twin itself; what is not awaited is one object under both names.
    assert set(ithaca.__all__) - {"aio"} == set(ithaca.aio.__all__)
    for name in set(ithaca.aio.__all__) - {"connect", "open", *TWINS}:
        assert getattr(ithaca.aio, name) is getattr(ithaca, name), name


@pytest.mark.parametrize("module", [ithaca, ithaca.aio], ids=lambda module: module.__name__)
def test_all_lists_what_is_there_once(module: ModuleType) -> None:
    assert len(set(module.__all__)) == len(module.__all__)
    for name in module.__all__:
        assert getattr(module, name) is not None, name


@pytest.mark.parametrize("name", ["open", "connect"])
def test_the_twins_open_alike(name: str) -> None:
    sync, awaited = inspect.signature(getattr(ithaca, name)), inspect.signature(getattr(ithaca.aio, name))
    assert [(p.name, p.kind, p.default) for p in sync.parameters.values()] == [
        (p.name, p.kind, p.default) for p in awaited.parameters.values()
    ]


def test_the_package_is_typed() -> None:
    assert ithaca.__file__ is not None
    assert Path(ithaca.__file__).with_name("py.typed").exists()


def documented(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """The public names of a package that have a docstring of their own: classes and functions."""
    for name in module.__all__:
        thing = getattr(module, name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            yield f"{module.__name__}.{name}", thing


PUBLIC = dict([*documented(ithaca), *documented(ithaca.aio)])


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_explains_itself(name: str) -> None:
    thing = PUBLIC[name]
    assert thing.__doc__, f"{name} has no docstring"
    if inspect.isclass(thing):
        undocumented = [
            member
            for member, function in vars(thing).items()
            if not member.startswith("_") and callable(function) and not inspect.getdoc(function)
        ]
        assert not undocumented, f"{name} has undocumented methods"
    # One example stands for the whole tree of errors, at its root.
    if not is_error(thing) or thing is errors.IthacaError:
        assert ">>>" in thing.__doc__, f"{name} has no example"


def examples() -> dict[str, doctest.DocTest]:
    """Every docstring with an example, of the modules that state the interface and of the public names."""
    finder = doctest.DocTestFinder()
    stated = [errors, records]
    found = [test for module in stated for test in finder.find(module, module.__name__)]
    for name, thing in PUBLIC.items():
        if thing.__module__ not in {module.__name__ for module in stated}:
            found += finder.find(thing, name, module=importlib.import_module(thing.__module__))
    return {test.name: test for test in found if test.examples}


EXAMPLES = examples()


def test_examples_are_found() -> None:
    assert {"ithaca.Log", "ithaca.aio.Log"} <= EXAMPLES.keys()
    assert {"ithaca.open", "ithaca.aio.open"} <= EXAMPLES.keys()


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(EXAMPLES[name], out=report.append)
    assert runner.failures == 0, "".join(report)
    assert runner.tries > 0


def test_every_error_is_public() -> None:
    for name, error in inspect.getmembers(errors, is_error):
        assert getattr(ithaca, name) is error
        assert name in ithaca.__all__
