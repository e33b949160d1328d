"""What this engine is called, in files and in hellos."""

from typing import Final

from ithaca.model.engine import EngineName

NAME: Final[EngineName] = "scalog"
