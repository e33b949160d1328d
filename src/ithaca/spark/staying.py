"""Workers that stay: Spark's daemon keeps a worker for the next step, and has it collect all garbage after each one.

What a collection looks at are objects of modules, some 100,000, none of which ever goes: it takes as long as a task of
32 MiB. Left out of collections, they cost nothing.
"""

import gc
import sys
from typing import Final

_DAEMON: Final = "pyspark.daemon"
_settled = 0
"""Modules there were when objects were left out last."""


def settle() -> None:
    """At the end of a step: if it brought modules along, what is there now stays, and is not looked at any more.

    Objects of that step alone are freed as their last reference goes; cycles among them are kept. Since a worker stops
    importing, that ends.
    """
    global _settled
    modules = len(sys.modules)
    if modules > _settled and is_kept():
        _settled = modules
        gc.freeze()


def is_kept() -> bool:
    """Whether this process is a worker of Spark's daemon, and not somebody's own program."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec is not None and spec.name == _DAEMON
