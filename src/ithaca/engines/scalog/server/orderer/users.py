"""What an orderer is asked about users, and how many names each of them may have."""

from collections.abc import Callable
from typing import Any

from ithaca.engines.scalog.messages.requests import BeginPart, BeginSession, Request
from ithaca.engines.scalog.ordering.outcomes import Outcome, UsersTold
from ithaca.engines.scalog.ordering.state import OrderingState
from ithaca.engines.scalog.server.orderer.answers import Answers
from ithaca.model.errors import IthacaError
from ithaca.protocol.codec import Received
from ithaca.protocol.users import ChangeUsers, GetUsers, ListUsers, UsersChanged
from ithaca.runtime.connection import Connection
from ithaca.server.users.desk import listed_users, too_many, users_are
from ithaca.users.caller import Caller
from ithaca.users.names import owner_of, owner_tag
from ithaca.users.table import UserChanges


class UserRequests:
    """Changes go through the leader; how the table is, a server may ask any orderer."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self.handlers: dict[type, Callable[[Connection, Received, Any], None]] = {
            ChangeUsers: self._change,
            ListUsers: self._list,
            GetUsers: self._get,
        }

    def _change(self, connection: Connection, request: Received, message: ChangeUsers) -> None:
        if not self._answers.may_lead(connection, request):
            return

        def done(outcomes: list[Outcome]) -> None:
            told = next(each for each in outcomes if isinstance(each, UsersTold))
            connection.answer(request, UsersChanged(told.outcomes))

        self._answers.submit(connection, request, UserChanges(message.commands), done)

    def _list(self, connection: Connection, request: Received, message: ListUsers) -> None:
        def answer(index: int) -> None:
            connection.answer(request, listed_users(self._answers.state.users, message))

        self._answers.read(connection, request, answer)

    def _get(self, connection: Connection, request: Received, message: GetUsers) -> None:
        try:
            is_current = self._answers.is_current
            connection.answer(request, users_are(self._answers.state.users, message, is_current=is_current))
        except IthacaError as error:
            self._answers.fail(connection, request, error)


def check_room(caller: Caller, state: OrderingState, message: Request) -> None:
    """`Overloaded` for a session or a part more than its user may have."""
    user = caller.user
    if user is None:
        return
    if isinstance(message, BeginSession) and user.limits.sessions:
        names = [each.name for each in state.sessions.by_id.values() if owner_of(each.name) == user.name]
        if message.name not in names and len(names) >= user.limits.sessions:
            raise too_many(user.name, len(names), "sessions", user.limits.sessions)
    if isinstance(message, BeginPart) and user.limits.parts:
        tag = owner_tag(user.name)
        count = sum(part.token.endswith(tag) for part in state.parts.by_lane.values())
        if count >= user.limits.parts:
            raise too_many(user.name, count, "parts that are not published", user.limits.parts)
