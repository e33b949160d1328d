"""Of what a cluster for tests shall consist, checked before anything is started."""

from typing import get_args

from ithaca.cluster.temporary import Shape
from ithaca.engines import registry
from ithaca.model.arguments import choice, flag, instance, text, whole
from ithaca.model.config.failures import FailurePolicy
from ithaca.model.limits import (
    AGGREGATOR_NUMBER_MAX,
    RAFT_MEMBERS_MAX,
    SHARD_NUMBER_MAX,
    SHARD_REPLICAS_MAX,
    SPARES_MAX,
)
from ithaca.model.records import Durability


def check_shape(shape: Shape) -> None:
    """Raise `InvalidInput` for numbers, flags and names that cannot be, `ConfigError` for an engine that is not there.

    >>> check_shape(Shape(shards=2, replicas=3, orderers=3))
    """
    whole(shape.shards, "shards", 1, SHARD_NUMBER_MAX)
    whole(shape.replicas, "replicas", 1, SHARD_REPLICAS_MAX)
    whole(shape.orderers, "orderers", 1, RAFT_MEMBERS_MAX)
    whole(shape.spares, "spares", 0, SPARES_MAX)
    whole(shape.aggregators, "aggregators", 0, AGGREGATOR_NUMBER_MAX)
    for name in ("masking", "tls", "users"):
        flag(getattr(shape, name), name)
    instance(shape.failures, FailurePolicy, "failures", 'ithaca.model.config.failures.FailurePolicy("mask")')
    registry.engine(text(shape.engine, "engine", f"one of {', '.join(registry.names())}"))
    choice(shape.durability, "durability", get_args(Durability))
