"""What positions of a log are and are not, for whoever takes it for a list."""

from typing import Any, NoReturn

from ithaca.model.errors import InvalidInput


def range_of(at: slice) -> tuple[Any, Any]:
    """What `log[at]` stands for, as arguments of `read_range`.

    >>> range_of(slice(None, 9))
    ('earliest', 9)
    """
    if at.step is not None:
        raise InvalidInput(f"log[{at.start}:{at.stop}:{at.step}] leaves records out: filter what read_range gives")
    return "earliest" if at.start is None else at.start, at.stop


class NotSequence:
    """It has positions, and is not a sequence of records."""

    def __iter__(self) -> NoReturn:
        raise InvalidInput('a log is not iterated itself: use log.read_range("earliest"), or log.subscribe("earliest")')

    def __len__(self) -> NoReturn:
        raise InvalidInput("a log has no length that stays: use log.tail() - log.first()")

    def __bool__(self) -> bool:
        return True
