"""The examples in the docstrings of the pipelines run."""

import doctest
from importlib import import_module

import pytest

MODULES = [
    "pipelines.events",
    "pipelines.claims",
    "marketplace.plain",
    "intrusion.plain",
    "fraud.plain",
    "trading.plain",
    "pipelines.spark",
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str) -> None:
    failed, tried = doctest.testmod(import_module(f"ithaca.apps.{name}"))
    assert tried > 0
    assert failed == 0
