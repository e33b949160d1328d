"""Options that several commands share: the fields of one dataclass, each of which becomes an option."""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from typing import Any, get_type_hints


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """The command, with the fields of a dataclass as options wherever a parameter is one.

    Typer reads signatures: it gets one without groups, and the command gets them made of what was given.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Size:
    ...     width: int = 1
    ...     height: int = 2
    >>> @with_groups
    ... def draw(*, name: str = "it", size: Size) -> None:
    ...     print(name, size)
    >>> list(inspect.signature(draw).parameters)
    ['name', 'width', 'height']
    >>> draw(name="this", width=3, height=4)
    this Size(width=3, height=4)
    """
    groups: dict[str, Any] = {}
    options: list[inspect.Parameter] = []
    hints = get_type_hints(command, include_extras=True)
    for parameter in inspect.signature(command).parameters.values():
        kind = hints[parameter.name]
        if is_dataclass(kind):
            groups[parameter.name] = kind
            options += _options(kind)
        else:
            options.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=kind))

    @wraps(command)
    def grouped(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        command(**given)

    grouped.__annotations__ = {option.name: option.annotation for option in options} | {"return": None}
    grouped.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    return grouped


def _options(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(group)
    ]
