"""Names that the ordering layer keeps, as a handle asks for them: sessions are listed and expired, writers listed and
forgotten. Every call may be repeated."""

from ithaca.client.deadline import Deadline
from ithaca.engines.scalog.client.context import Context
from ithaca.engines.scalog.client.order import Order
from ithaca.engines.scalog.messages.listing import ListedSession
from ithaca.engines.scalog.ordering.entries import ExpireSession
from ithaca.engines.scalog.ordering.outcomes import ExpiredSession
from ithaca.engines.scalog.ordering.prepared.entries import ForgetWriter
from ithaca.engines.scalog.ordering.prepared.outcomes import WriterForgotten
from ithaca.model.arguments import text
from ithaca.model.errors import DeadlineExceeded, NoSuchSession, NoSuchWriter
from ithaca.model.interface import SessionInfo, WriterInfo
from ithaca.model.parts import Published
from ithaca.runtime.backoff import Backoff
from ithaca.runtime.checks import check_session_name


class NameAdmin:
    """What `AsyncClusterAdmin` does with names."""

    _context: Context
    _order: Order

    async def sessions(self) -> tuple[SessionInfo, ...]:
        self._context.check()
        time_us, sessions = await self._listed_sessions(Deadline(self._context.timeout_s))
        return tuple(
            SessionInfo(each.name, each.epoch, str(each.home), _idle_s(each.active_us, time_us)) for each in sessions
        )

    async def expire_session(self, name: str) -> None:
        self._context.check()
        check_session_name(name)
        deadline, pauses = Deadline(self._context.timeout_s), Backoff()
        was_asked = False
        while True:
            _, sessions = await self._listed_sessions(deadline)
            found = next((each for each in sessions if each.name == name), None)
            if found is None and was_asked:
                return  # the answer to that did not come back
            if found is None:
                raise NoSuchSession(f"there is no session {name!r}: it was never opened, or has expired")
            was_asked = True
            entry = ExpireSession(found.producer_id, found.epoch)
            if any(isinstance(each, ExpiredSession) for each in await self._order.propose(entry, deadline)):
                return
            if deadline.passed:
                raise DeadlineExceeded(f"session {name!r} is opened again and again: it has not expired")
            await pauses.pause(deadline)

    async def writers(self) -> tuple[WriterInfo, ...]:
        self._context.check()
        time_us, writers = await self._listed_writers(Deadline(self._context.timeout_s))
        return tuple(
            WriterInfo(each.writer, each.key, each.owner, each.position, each.count, _idle_s(published_us, time_us))
            for each, published_us in writers
        )

    async def forget_writer(self, writer: str) -> None:
        self._context.check()
        text(writer, "writer", "the name of a writer")
        deadline, pauses = Deadline(self._context.timeout_s), Backoff()
        was_asked = False
        while True:
            _, writers = await self._listed_writers(deadline)
            found = next((each for each, _ in writers if each.writer == writer), None)
            if found is None and was_asked:
                return  # the answer to that did not come back
            if found is None:
                raise NoSuchWriter(f"no writer {writer!r} is remembered: it never published, or was forgotten")
            was_asked = True
            outcomes = await self._order.propose(ForgetWriter(writer, found.key), deadline)
            if any(isinstance(each, WriterForgotten) for each in outcomes):
                return
            if deadline.passed:
                raise DeadlineExceeded(f"writer {writer!r} publishes again and again: it was not forgotten")
            await pauses.pause(deadline)

    async def _listed_sessions(self, deadline: Deadline) -> tuple[int, list[ListedSession]]:
        """The order's time, and all sessions that have names."""
        found: list[ListedSession] = []
        while True:
            page = await self._order.sessions(found[-1].producer_id if found else 0, deadline)
            if not page.sessions:
                return page.time_us, found
            found += page.sessions

    async def _listed_writers(self, deadline: Deadline) -> tuple[int, list[tuple[Published, int]]]:
        """The order's time, and what every writer published last, and when."""
        found: list[tuple[Published, int]] = []
        while True:
            page = await self._order.writers(found[-1][0].writer if found else "", deadline)
            if not page.writers:
                return page.time_us, found
            found += page.writers


def _idle_s(active_us: int, time_us: int) -> float | None:
    return max(0, time_us - active_us) / 1e6 if active_us else None
