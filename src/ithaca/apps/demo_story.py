"""What the stories of demos have in common: they are told to the end, or to the first claim that does not hold."""

from typing import Protocol

from ithaca.apps.demo_cast import DemoFailed
from ithaca.apps.demo_display import Display
from ithaca.engines import registry
from ithaca.model.engine import EngineName, Feature
from ithaca.model.interface.unsupported import unsupported


class Story(Protocol):
    """A demo."""

    def tell(self) -> None:
        """Everything; `DemoFailed` when a claim does not hold."""

    def figures(self) -> list[tuple[str, str]]:
        """What it measured, as rows of a table."""


def told(story: Story, display: Display) -> bool:
    """Tell it, and show its figures; False when a claim did not hold."""
    try:
        with display:
            story.tell()
    except DemoFailed as failure:
        display.say(f"FAILED: {failure}")
        return False
    display.table("every claim held", story.figures())
    return True


def check_engine(name: EngineName, *features: Feature) -> None:
    """`Unsupported` unless an engine can do what a demo is about."""
    for feature in features:
        if feature not in registry.engine(name).features:
            raise unsupported(feature)
