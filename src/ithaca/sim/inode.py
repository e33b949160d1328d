"""One file of the simulated disk: what is visible, what is durable, and what power loss makes of the two."""

from random import Random
from typing import Literal

SECTOR_BYTES = 512
PAGE_BYTES = 4096

Tear = Literal["sector", "byte"]
"""Whether power loss divides writes only between sectors, or anywhere."""
Operation = tuple[int, bytes] | int
"""A write (offset, data), or a new size."""


class Inode:
    """One file: `current` is visible, `durable` survives, `base` is what was visible at the last sync."""

    __slots__ = ("base", "current", "durable", "is_directory", "pending")

    def __init__(self, *, is_directory: bool = False) -> None:
        self.is_directory = is_directory
        self.current = bytearray()
        self.durable = bytearray()
        self.base = self.durable  # another object only after a failed sync
        self.pending: list[Operation] = []

    def copy(self) -> "Inode":
        copy = Inode(is_directory=self.is_directory)
        copy.current, copy.durable = bytearray(self.current), bytearray(self.durable)
        copy.base = copy.durable if self.base is self.durable else bytearray(self.base)
        copy.pending = list(self.pending)
        return copy

    def perform(self, operation: Operation) -> None:
        _apply(self.current, operation)
        self.pending.append(operation)

    def sync(self) -> None:
        layers = [self.durable] if self.base is self.durable else [self.durable, self.base]
        for layer in layers:
            _resize(layer, len(self.current))
            for unit in self._touched(PAGE_BYTES):
                span = slice(unit * PAGE_BYTES, (unit + 1) * PAGE_BYTES)
                layer[span] = self.current[span]
        self.pending.clear()

    def fail_sync(self) -> None:
        self.base = bytearray(self.current)
        self.pending.clear()

    def lose_power(self, random: Random, tear: Tear) -> None:
        if self.pending:
            self.durable = self._survivor(random, tear)
        self.current = bytearray(self.durable)
        self.base = self.durable
        self.pending = []

    def _spans(self) -> list[tuple[int, int, bool]]:
        """For each pending operation the bytes that it changed, and whether it cut the file there."""
        spans = []
        size = len(self.base)
        for operation in self.pending:
            if isinstance(operation, int):
                spans.append((min(operation, size), size, True))
                size = operation
            else:
                offset, data = operation
                spans.append((min(offset, size), offset + len(data), False))
                size = max(size, offset + len(data))
        return spans

    def _touched(self, unit_bytes: int) -> list[int]:
        """The numbers of the sectors or pages that pending operations changed."""
        touched: set[int] = set()
        for start, stop, _ in self._spans():
            touched.update(range(start // unit_bytes, -(-stop // unit_bytes)))
        return sorted(touched)

    def _survivor(self, random: Random, tear: Tear) -> bytearray:
        """The contents after power loss: a moment for each sector and for the size; moment 0 is durable."""
        last = len(self.pending)
        style = random.choice(("nothing", "everything", "prefix", "scattered"))
        prefix = random.randint(0, last)

        def moment() -> int:
            if style == "scattered":
                return random.randint(0, last)
            if style == "prefix":  # the operation at the end of the prefix may be torn
                return prefix if random.random() < 0.7 else max(0, prefix - 1)
            return 0 if style == "nothing" else last

        size_moment = moment()
        cuts = [(number, *span[:2]) for number, span in enumerate(self._spans(), 1) if span[2]]
        wanted: dict[int, list[tuple[int, int]]] = {}  # moment -> spans that hold what was visible then
        for sector in self._touched(SECTOR_BYTES):
            start, stop = sector * SECTOR_BYTES, (sector + 1) * SECTOR_BYTES
            # What a truncation cuts off is gone exactly if the size says that it happened.
            happened = [number for number, low, high in cuts if low < stop and high > start]
            low = max((number for number in happened if number <= size_moment), default=0)
            high = min((number - 1 for number in happened if number > size_moment), default=last)
            split = random.randint(start, min(stop, len(self.current))) if self._splits(start, tear) else stop
            wanted.setdefault(min(max(moment(), low), high), []).append((start, split))
            wanted.setdefault(min(max(moment(), low), high), []).append((split, stop))
        return self._mixed(wanted, size_moment)

    def _splits(self, start: int, tear: Tear) -> bool:
        return tear == "byte" and start < len(self.current)

    def _mixed(self, wanted: dict[int, list[tuple[int, int]]], size_moment: int) -> bytearray:
        survivor, seen, size = bytearray(self.durable), bytearray(self.base), len(self.durable)
        for number, operation in enumerate(self.pending, 1):
            _apply(seen, operation)
            for start, stop in wanted.get(number, ()):
                _resize(survivor, max(len(survivor), stop))
                survivor[start:stop] = bytes(seen[start:stop]).ljust(stop - start, b"\0")
            if number == size_moment:
                size = len(seen)
        _resize(survivor, size)
        return survivor


def _apply(contents: bytearray, operation: Operation) -> None:
    if isinstance(operation, int):
        _resize(contents, operation)
        return
    offset, data = operation
    _resize(contents, max(len(contents), offset))
    contents[offset : offset + len(data)] = data


def _resize(contents: bytearray, size: int) -> None:
    if size < len(contents):
        del contents[size:]
    else:
        contents.extend(bytes(size - len(contents)))
