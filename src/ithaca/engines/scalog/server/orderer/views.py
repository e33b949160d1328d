"""Views, which every orderer answers from what it has applied: at once, or when it has come so far."""

import asyncio

from ithaca.engines.scalog.messages.order import GetView, ViewIs
from ithaca.engines.scalog.server.orderer.answers import Answers
from ithaca.model.errors import Overloaded, Unavailable
from ithaca.model.limits import VIEW_WAIT_S_MAX, VIEW_WAITS_MAX
from ithaca.protocol.codec import Received
from ithaca.runtime.connection import Connection


class ViewRequests:
    """Takes `GetView`, of all connections."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._waits: dict[tuple[Connection, int], _ViewWait] = {}
        self._looked_at = 0
        """The version with which those that wait were looked at last."""

    def get(self, connection: Connection, request: Received, message: GetView) -> None:
        key = connection, request.correlation
        fail, group = self._answers.fail, self._answers.group
        if message.at_least <= self._version:
            self._answer(connection, request)
        elif group.state is not None:
            fail(connection, request, Unavailable(f"this orderer does not vote, it is {group.state}"))
        elif len(self._waits) >= VIEW_WAITS_MAX or key in self._waits:
            fail(connection, request, Overloaded(f"{VIEW_WAITS_MAX} requests wait for a newer view: try again"))
        else:
            timer = asyncio.get_running_loop().call_later(VIEW_WAIT_S_MAX, self._give_up, key)
            self._waits[key] = _ViewWait(message.at_least, connection, request, timer)

    def applied(self) -> None:
        """Entries were applied: whoever waits for this view is answered."""
        version = self._version
        if version == self._looked_at:
            return
        self._looked_at = version
        for key, wait in list(self._waits.items()):
            if wait.at_least <= version:
                del self._waits[key]
                wait.timer.cancel()
                self._answer(wait.connection, wait.request)

    def close(self) -> None:
        for wait in self._waits.values():
            wait.timer.cancel()
        self._waits.clear()

    @property
    def _version(self) -> int:
        return self._answers.state.shards.version

    def _give_up(self, key: tuple[Connection, int]) -> None:
        wait = self._waits.pop(key)
        why = Unavailable(f"this orderer knows view {self._version}, not yet {wait.at_least}")
        self._answers.fail(wait.connection, wait.request, why)

    def _answer(self, connection: Connection, request: Received) -> None:
        state, group = self._answers.state, self._answers.group
        if state.configuration is None:
            self._answers.not_configured(connection, request)
            return
        orderers = self._answers.orderers
        view = ViewIs(state.view, state.configuration, orderers.addresses, group.leader, orderers.entry)
        connection.answer(request, view)


class _ViewWait:
    """A request for a view that is not there yet."""

    __slots__ = ("at_least", "connection", "request", "timer")

    def __init__(self, at_least: int, connection: Connection, request: Received, timer: asyncio.TimerHandle) -> None:
        self.at_least = at_least
        self.connection = connection
        self.request = request
        self.timer = timer
