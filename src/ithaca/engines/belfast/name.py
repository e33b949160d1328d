"""What this engine is called."""

from typing import Final

from ithaca.model.engine import EngineName

NAME: Final[EngineName] = "belfast"
