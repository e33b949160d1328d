"""Writers: what each published last, so that the same key is never published twice (design §5).

A name is kept until somebody has it forgotten, or until it was silent for as long as the cluster's file says. Where
all places are taken a new name is refused, and none is dropped to make room: whoever was dropped could publish its
last batch once more.
"""

import msgspec

from ithaca.engines.scalog.ordering.outcomes import Outcome, RefusedEntry
from ithaca.engines.scalog.ordering.prepared.entries import ForgetWriter, ForgetWriters, Publish
from ithaca.engines.scalog.ordering.prepared.outcomes import PartsPublished, PublishConflicts, WriterForgotten
from ithaca.model.limits import WRITERS_MAX
from ithaca.model.parts import Published


class WriterTable:
    """The newest publication of each writer, that of the longest silence first."""

    def __init__(self) -> None:
        self.by_name: dict[str, Published] = {}
        self._published_us: dict[str, int] = {}
        """When that was, by the order's time; 0 when it is not known."""

    def answer(self, entry: Publish) -> Outcome | None:
        """What the writer's newest publication means for this one; None if it is no obstacle."""
        known = self.by_name.get(entry.writer)
        if known is None or entry.key > known.key:
            return None
        is_same = entry.key == known.key and entry.owner == known.owner
        return PartsPublished(known) if is_same else PublishConflicts(known)

    def refusal(self, entry: Publish) -> Outcome | None:
        """Why the writer cannot be remembered; None if it can."""
        if entry.writer in self.by_name or len(self.by_name) < WRITERS_MAX:
            return None
        return RefusedEntry(msgspec.structs.replace(entry, parts=()), "too many writers")

    def note(self, published: Published, time_us: int) -> None:
        """This is the writer's newest publication."""
        self._drop(published.writer)
        self.by_name[published.writer] = published
        self._published_us[published.writer] = time_us

    def forget(self, entry: ForgetWriter) -> list[Outcome]:
        known = self.by_name.get(entry.writer)
        if known is None:
            return [RefusedEntry(entry, "no such writer")]
        if known.key != entry.key:
            return [RefusedEntry(entry, "the writer has published since")]
        self._drop(entry.writer)
        return [WriterForgotten(known)]

    def forget_idle(self, entry: ForgetWriters, time_us: int) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for writer, key in entry.writers:
            known, published_us = self.by_name.get(writer), self.published_us(writer)
            if known is None or known.key != key or published_us > entry.since_us:
                continue
            if published_us:
                self._drop(writer)
                outcomes.append(WriterForgotten(known))
            else:  # of an earlier version: its time begins now
                self._published_us[writer] = time_us
        return outcomes

    def published_us(self, writer: str) -> int:
        return self._published_us.get(writer, 0)

    def idle_since(self, since_us: int) -> list[Published]:
        """Those that published nothing after this time."""
        return [each for each in self.by_name.values() if self.published_us(each.writer) <= since_us]

    def packed(self) -> tuple[list[Published], list[int]]:
        return list(self.by_name.values()), [self.published_us(writer) for writer in self.by_name]

    @classmethod
    def restored(cls, published: list[Published], published_us: list[int]) -> "WriterTable":
        table = cls()
        table.by_name = {each.writer: each for each in published}
        table._published_us = dict(zip(table.by_name, published_us, strict=False))
        return table

    def _drop(self, writer: str) -> None:
        self.by_name.pop(writer, None)
        self._published_us.pop(writer, None)
