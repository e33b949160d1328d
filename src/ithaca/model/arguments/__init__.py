"""Arguments that callers can get wrong, checked where they enter: `values` and `things`.

Each check returns the argument, or raises `InvalidInput` that names it, its value and what is wanted. Durations and
sizes are read by `model.units`, paths by `model.paths`, addresses by `model.addresses`; positions and filters are
checked by `runtime.checks`.
"""

from ithaca.model.arguments.things import SINGLE, function, instance, is_iterable, items, optional_function, text
from ithaca.model.arguments.values import choice, flag, is_integer, whole

__all__ = [
    "SINGLE",
    "choice",
    "flag",
    "function",
    "instance",
    "is_integer",
    "is_iterable",
    "items",
    "optional_function",
    "text",
    "whole",
]
