"""What a consumer of a run has open, what it was handed out, and what it wants to commit: as its history has it.

Each opening of a part is a subscription of the history. Lines that say what is about to be asked for are in the file
before it is, so that the next life of a client that is killed, and the checker, know what may have come about.
"""

import time
from collections.abc import Iterable, Sequence
from itertools import count

from msgspec import UNSET

from ithaca.client.consuming.held_parts import part_of
from ithaca.model.consumers import CommitPosition, PartStands
from ithaca.model.records import Record
from ithaca.proof.history import Append, Commit, Deliver, Hand, Mark, Own, Sub
from ithaca.torture.clients.client import Client
from ithaca.torture.sightings import seen

SUBSCRIPTIONS = 1_000_000
"""Numbers of subscriptions that each client has for itself; a fiftieth of them is for one life of it."""
OUT_SESSIONS = 1 << 50
"""From here on sessions are of what consumers write: one for each part."""
OUT_KEY = "out"


class Taking:
    """One handle of a consumer."""

    def __init__(
        self, client: Client, name: str, count: int, prefix: str, numbers: "count[int]", out: int | None
    ) -> None:
        """`out`: the session of what is written for part 0, if records are written for what is taken."""
        self._client = client
        self._name = name
        self._count = count
        self._prefix = prefix
        self._numbers = numbers
        self._out = out
        self._open: dict[int, PartStands] = {}
        self._subs: dict[tuple[int, int], int] = {}
        """By part and epoch."""
        self._marked: dict[int, int] = {}
        self.taken: list[tuple[int, int]] = []
        """Part and position of what was handed out and not committed."""

    def opened(self, standing: Iterable[PartStands], invoked: int) -> None:
        """These parts are its own from now on."""
        for stands in standing:
            sub, now = next(self._numbers), time.monotonic_ns()
            self._open[stands.part] = stands
            self._subs[stands.part, stands.epoch] = sub
            out = UNSET if self._out is None else self._out + stands.part
            history = self._client.history
            history.write(Sub(sub, stands.position, f"part={stands.part}:{self._count}:{self._prefix}"))
            history.write(Own(self._name, stands.part, stands.epoch, stands.position, sub, invoked, now, out))

    def handed_out(self, records: Sequence[Record], standing: Iterable[PartStands], invoked: int) -> None:
        """A call that began then has returned these."""
        returned, history, subs = time.monotonic_ns(), self._client.history, set()
        for record in records:
            part = part_of(record.key, self._count)
            sub = self._subs[part, self._open[part].epoch]
            history.write(Deliver(sub, returned, *seen(record)))
            subs.add(sub)
            self.taken.append((part, record.position))
        for sub in subs if self._count > 1 else ():  # who was fenced may go on with a consumer that is no group
            history.write(Hand(sub, invoked, returned))
        for stands in standing:
            self._mark(self._subs[stands.part, stands.epoch], stands.position, returned)
        self._client.count(max(1, len(records)))  # a member may have parts without a key

    def _mark(self, sub: int, position: int, now: int) -> None:
        if self._marked.get(sub) != position:
            self._marked[sub] = position
            self._client.history.write(Mark(sub, now, position))

    def commits(self, commits: Sequence[CommitPosition]) -> list[Commit]:
        """These are about to be asked for. To commit is to say that one has all below."""
        now = time.monotonic_ns()
        lines = []
        for each in commits:
            sub = self._subs[each.part, each.epoch]
            self._mark(sub, each.position, now)
            lines.append(Commit(sub, each.position, now, now, "info"))
        for line in lines:
            self._client.history.write(line)
        self._client.history.flush()
        return lines

    def committed(self, lines: Iterable[Commit]) -> None:
        """They were acknowledged."""
        now = time.monotonic_ns()
        for line in lines:
            self._client.history.write(Commit(line.sub, line.pos, line.inv, now, "ok"))
        self.taken.clear()

    def writes(self) -> list[tuple[int, int]]:
        """The session and the number of what is to be written for what was taken, which is about to be asked for."""
        assert self._out is not None
        now = time.monotonic_ns()
        ids = [(self._out + part, position) for part, position in self.taken]
        for each in ids:
            self._client.history.write(Append(each, 1, now, now, "info", key=OUT_KEY))
        return ids
