"""The engine's name, for those that must not load the rest of it."""

from typing import Final

from ithaca.model.engine import EngineName
from ithaca.model.positions import LaneId

NAME: Final[EngineName] = "raft"
LANE: Final = LaneId(0, 0, 1)
"""The data log: the same on every server, so that a batch is the same bytes everywhere."""
