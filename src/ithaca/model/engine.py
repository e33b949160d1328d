"""What an engine is: how the records of a cluster get their places in the one order."""

from typing import Literal

EngineName = Literal["scalog", "belfast", "corfu", "raft"]

DEFAULT_ENGINE: EngineName = "scalog"
