"""How a server learns of the users that does not agree on them itself: it asks one of the orderers again and again.

Any orderer answers that hears a leader, so that the leader has no connection of every server for this.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress

from ithaca.model.errors import IthacaError, ProtocolError
from ithaca.model.limits import ATTEMPT_TIMEOUT_S
from ithaca.model.view import Address
from ithaca.protocol.users import GetUsers, UsersAre
from ithaca.runtime.connection import Connection, OnlyAnswers
from ithaca.runtime.dialling import Said, dial
from ithaca.server.users.gate import UserGate
from ithaca.users.limits import USERS_ASK_S
from ithaca.users.table import UserTable

_log = logging.getLogger("ithaca.users")


class UserFollower:
    """Keeps a gate up to date, from `start` to `stop`."""

    def __init__(self, gate: UserGate, orderers: Callable[[], Sequence[Address]], hello: Callable[[], Said]) -> None:
        """`orderers` are those that are known now."""
        self._gate = gate
        self._orderers = orderers
        self._hello = hello
        self._next = 0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _run(self) -> None:
        told = ""
        while True:
            try:
                connection = await self._dialled()
                try:
                    while True:
                        await self._ask(connection)
                        told = ""
                        await asyncio.sleep(USERS_ASK_S)
                finally:
                    connection.close()
            except IthacaError as error:
                if str(error) != told:
                    _log.info("an orderer does not say who the users are: %s", error)
                told = str(error)
            await asyncio.sleep(USERS_ASK_S)

    async def _dialled(self) -> Connection:
        orderers = self._orderers()
        self._next += 1
        address = orderers[self._next % len(orderers)]
        return await dial(address, self._hello(), OnlyAnswers(), timeout=ATTEMPT_TIMEOUT_S)

    async def _ask(self, connection: Connection) -> None:
        request = GetUsers(self._gate.version if self._gate.is_told else 0)
        answer = (await connection.request(request, timeout=ATTEMPT_TIMEOUT_S)).message
        if not isinstance(answer, UsersAre):
            raise ProtocolError(f"{connection.name} answered a question about users with {type(answer).__name__}")
        if answer.table is not None:
            self._gate.changed(UserTable(answer.table))
        elif not self._gate.is_told:
            self._gate.changed(UserTable())
        else:
            self._gate.heard()
