"""What an engine is: how the records of a cluster get their places in the one order. And what not every log can do."""

from enum import Enum
from typing import TypeAlias

EngineName: TypeAlias = str
"""`engines.registry` knows which there are: a file, and a peer, may name one that this version does not have."""

DEFAULT_ENGINE: EngineName = "scalog"
"""Of files and peers that name none."""


class Feature(Enum):
    """What not every engine can do, and how messages call it."""

    SESSIONS = "sessions"
    TRIM = "trimming"
    PREPARED = "prepared appends"
    SHARDS = "shards that are chosen, added or finalized"
    REPLICAS = "replicas that are added, removed or replaced"
    ORDERERS = "orderers that are added or removed"
    SPECULATION = "records that are delivered before their places are final"
    DENSE = "a record at every position"
    """Below the tail, but for what was trimmed or lost. Elsewhere some positions hold none and never will."""
    UNITS = "storage units that are added or replaced, and a sequencer that is replaced"
    POSITIONS = "positions that are written, filled or trimmed one by one"
    CONSUMERS = "named consumers"
    USERS = "users with rights of their own"
    LOSSES = "ordered records that are declared lost"
    AGGREGATORS = "aggregators between replicas and the leader"


FEATURES: dict[EngineName, frozenset[Feature]] = {
    DEFAULT_ENGINE: frozenset(Feature) - {Feature.SPECULATION, Feature.POSITIONS, Feature.UNITS},
    "belfast": frozenset(Feature)
    - {Feature.DENSE, Feature.POSITIONS, Feature.UNITS, Feature.AGGREGATORS, Feature.LOSSES},
    "raft": frozenset(
        {Feature.SESSIONS, Feature.TRIM, Feature.ORDERERS, Feature.DENSE, Feature.CONSUMERS, Feature.USERS}
    ),
    "corfu": frozenset({Feature.SESSIONS, Feature.TRIM, Feature.POSITIONS, Feature.UNITS, Feature.CONSUMERS}),
}
"""What each engine can do. It stands here so that a refusal can name others without loading them."""


def engines_with(feature: Feature) -> list[EngineName]:
    """The engines that can do this.

    >>> DEFAULT_ENGINE in engines_with(Feature.PREPARED)
    True
    """
    return [name for name, features in FEATURES.items() if feature in features]


EMBEDDED_FEATURES = frozenset({Feature.SESSIONS, Feature.TRIM, Feature.DENSE, Feature.CONSUMERS})
"""What the log of a directory can do, which has no engine: one process writes it."""
