"""Forks: a child must not use a handle that it inherited, nor hold on to what belongs to its parent.

Its threads are gone, its locks may be held by nobody, and its descriptors share the parent's file locks,
which would outlive the parent's. multiprocessing, gunicorn and Spark's workers all fork.
"""

import os
import weakref
from typing import Protocol


class Forkable(Protocol):
    """A handle that can be told that it now lives in a child."""

    def forked(self) -> None: ...


_handles: "weakref.WeakSet[Forkable]" = weakref.WeakSet()


def watch(handle: Forkable) -> None:
    """Have `handle.forked()` called in every child."""
    _handles.add(handle)


def _in_child() -> None:
    for handle in list(_handles):
        handle.forked()
    _handles.clear()


os.register_at_fork(after_in_child=_in_child)
