"""What implements an interface takes the same arguments with the same defaults."""

import inspect
from typing import Any

import pytest

from ithaca.client.sync.log import SyncAdmin, SyncClusterLog, SyncPartWriter, SyncSession
from ithaca.client.sync.records import SyncRecords, SyncSubscription
from ithaca.embedded.aio import AsyncEmbeddedLog, AsyncEmbeddedSession
from ithaca.embedded.aio_records import AsyncEmbeddedRecords, AsyncEmbeddedSubscription
from ithaca.embedded.log import EmbeddedLog, EmbeddedSession
from ithaca.embedded.records import EmbeddedRecords, EmbeddedSubscription
from ithaca.engines.scalog.client.admin.admin import AsyncClusterAdmin
from ithaca.engines.scalog.client.append.part_writer import AsyncPartWriter
from ithaca.engines.scalog.client.append.session import AsyncClusterSession
from ithaca.engines.scalog.client.log import AsyncClusterLog
from ithaca.engines.scalog.client.read.records import AsyncClusterRecords, AsyncClusterSubscription
from ithaca.model import interface
from ithaca.model.interface import awaited

PAIRS: list[tuple[type[Any], type[Any]]] = [
    (AsyncClusterLog, awaited.ClusterLog),
    (AsyncClusterAdmin, awaited.Admin),
    (AsyncClusterRecords, awaited.Records),
    (AsyncClusterSubscription, awaited.Subscription),
    (AsyncClusterSession, awaited.Session),
    (AsyncPartWriter, awaited.PartWriter),
    (SyncClusterLog, interface.ClusterLog),
    (SyncAdmin, interface.Admin),
    (SyncRecords, interface.Records),
    (SyncSubscription, interface.Subscription),
    (SyncSession, interface.Session),
    (SyncPartWriter, interface.PartWriter),
    (EmbeddedLog, interface.Log),
    (EmbeddedSession, interface.Session),
    (EmbeddedRecords, interface.Records),
    (EmbeddedSubscription, interface.Subscription),
    (AsyncEmbeddedLog, awaited.Log),
    (AsyncEmbeddedSession, awaited.Session),
    (AsyncEmbeddedRecords, awaited.Records),
    (AsyncEmbeddedSubscription, awaited.Subscription),
]


def arguments(method: object) -> list[tuple[str, object, object]]:
    assert callable(method)
    return [(each.name, each.kind, each.default) for each in inspect.signature(method).parameters.values()]


@pytest.mark.parametrize(("made", "promised"), PAIRS, ids=lambda each: each.__name__)
def test_arguments_and_defaults_are_those_of_the_interface(made: type[Any], promised: type[Any]) -> None:
    names = [name for name, each in inspect.getmembers(promised, inspect.isfunction) if not name.startswith("__")]
    assert names
    assert {name: arguments(getattr(made, name)) for name in names} == {
        name: arguments(getattr(promised, name)) for name in names
    }
