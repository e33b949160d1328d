"""Ctrl-C at a chosen moment: before or after the n-th operation of a disk, or before the n-th line of modules."""

import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType, ModuleType
from typing import Any

from ithaca.model.records import Buffer
from ithaca.sim.disk import SimDisk
from ithaca.storage.disk import Disk, File, Mapped


class Interrupter:
    """Raises `KeyboardInterrupt` once, at operation `at`."""

    def __init__(self) -> None:
        self.at = -1
        self.after = False
        self.count = 0
        self.fired = False

    def arm(self, at: int, *, after: bool) -> None:
        self.at, self.after, self.count, self.fired = at, after, 0, False

    def perform(self, operation: Callable[[], Any]) -> Any:
        mine = self.count == self.at and not self.fired
        self.count += 1
        if mine and not self.after:
            self._fire()
        result = operation()
        if mine and self.after:
            self._fire()
        return result

    def _fire(self) -> None:
        self.fired = True
        raise KeyboardInterrupt


class InterruptingFile:
    """A file whose operations pass an interrupter."""

    def __init__(self, file: File, interrupter: Interrupter) -> None:
        self.path = file.path
        self._file = file
        self._perform = interrupter.perform

    def read(self, offset: int, count: int) -> bytes:
        return self._file.read(offset, count)

    def is_resident(self, offset: int, count: int) -> bool:
        return self._file.is_resident(offset, count)

    def write(self, offset: int, buffers: Sequence[Buffer]) -> None:
        self._perform(lambda: self._file.write(offset, buffers))

    def write_durably(self, offset: int, buffers: Sequence[Buffer]) -> None:
        self.write(offset, buffers)
        self.sync()

    def sync(self) -> None:
        self._perform(self._file.sync)

    def mapped(self, count: int) -> Mapped:
        return self._file.mapped(count)

    def size(self) -> int:
        return self._file.size()

    def truncate(self, size: int) -> None:
        self._perform(lambda: self._file.truncate(size))

    def allocate(self, offset: int, count: int) -> None:
        self._perform(lambda: self._file.allocate(offset, count))


class InterruptingDisk:
    """A disk whose operations pass an interrupter."""

    def __init__(self, disk: SimDisk, interrupter: Interrupter) -> None:
        self._disk: Disk = disk
        self._interrupter = interrupter
        self._perform = interrupter.perform
        self.exists, self.list, self.space = disk.exists, disk.list, disk.space
        self.make_directory, self.remove_directory = disk.make_directory, disk.remove_directory

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File:
        file: File = self._perform(lambda: self._disk.open(path, create=create, writable=writable))
        return InterruptingFile(file, self._interrupter)

    def rename(self, old: str, new: str) -> None:
        self._perform(lambda: self._disk.rename(old, new))

    def remove(self, path: str) -> None:
        self._perform(lambda: self._disk.remove(path))

    def sync_directory(self, directory: str) -> None:
        self._perform(lambda: self._disk.sync_directory(directory))


class _Tracer(ABC):
    """Follows what runs while `tracing`, until it has fired."""

    def __init__(self, at: int) -> None:
        self._at = at
        self.count = 0
        self.fired_at = ""

    @contextmanager
    def tracing(self) -> Iterator[None]:
        before = sys.gettrace()
        sys.settrace(self._call)
        try:
            yield
        finally:
            sys.settrace(before)

    @abstractmethod
    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        """The trace function."""


class LineInterrupter(_Tracer):
    """Raises `KeyboardInterrupt` once, before the `at`-th line that runs in the modules."""

    def __init__(self, modules: Sequence[ModuleType], at: int) -> None:
        super().__init__(at)
        self._files = {module.__file__: _lines(module) for module in modules}

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self._line if frame.f_code.co_filename in self._files else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event != "line" or self.fired_at:
            return self._line
        line = self._files[frame.f_code.co_filename][frame.f_lineno - 1]
        # Leaving a `with` shows up as a line, and Python never lets an interrupt in between there.
        if not line.lstrip().startswith("with "):
            self.count += 1
            if self.count == self._at:
                self.fired_at = f"{frame.f_code.co_filename}:{frame.f_lineno}: {line.strip()}"
                raise KeyboardInterrupt
        return self._line


class ReturnInterrupter(_Tracer):
    """Raises `KeyboardInterrupt` once, when the `at`-th call of a Python function of `threading` returns.

    Most of them end with a call, after which Python looks for interrupts: what they have locked is locked then.
    """

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self._event if frame.f_code.co_filename == threading.__file__ else None

    def _event(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "return" and not self.fired_at:
            self.count += 1
            if self.count == self._at:
                self.fired_at = frame.f_code.co_qualname
                raise KeyboardInterrupt
        return self._event


def _lines(module: ModuleType) -> list[str]:
    assert module.__file__ is not None
    with open(module.__file__, encoding="utf-8") as file:
        return file.read().splitlines()
