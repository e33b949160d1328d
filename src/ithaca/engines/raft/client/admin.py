"""What changes a cluster of this engine: its servers, which the file calls orderers, and the names of sessions."""

from ithaca.client.asking import ask_status
from ithaca.client.deadline import Deadline
from ithaca.client.users import UserAdmin
from ithaca.engines.raft.client.servers import Servers
from ithaca.engines.raft.messages import EndSession, GetSessions, SessionsAre
from ithaca.engines.raft.name import LANE
from ithaca.model.addresses import parse_address
from ithaca.model.arguments import whole
from ithaca.model.errors import DeadlineExceeded, InvalidInput, ProtocolError, Unavailable
from ithaca.model.interface import OrdererInfo, SessionInfo
from ithaca.model.interface.awaited import Admin
from ithaca.model.limits import RAFT_NUMBER_MAX
from ithaca.model.view import Address
from ithaca.protocol.codec import Message
from ithaca.protocol.members import AddOrderer, GetMembers, RemoveOrderer
from ithaca.runtime.backoff import Backoff
from ithaca.runtime.checks import check_session_name


class RaftAdmin(UserAdmin, Admin):
    """Every call may be repeated: it says what shall be so."""

    def __init__(self, servers: Servers, timeout_s: float) -> None:
        self._servers = servers
        self._timeout_s = timeout_s

    async def _ask_about_users(self, message: Message) -> Message:
        return await self._servers.ask(message, Deadline(self._timeout_s))

    async def add_orderer(self, address: str) -> int:
        place = parse_address(address)
        deadline, pauses = Deadline(self._timeout_s), Backoff()
        members = await self._servers.ask_members(GetMembers(), deadline)
        number = next((each.server for each in members.members if each.address == place), None)
        if number is None:
            number = await self._waiting_at(place)
        members = await self._servers.ask_members(AddOrderer(number, place), deadline)
        while not any(each.server == number and each.votes for each in members.members):
            if deadline.passed:
                raise DeadlineExceeded(
                    f"server {number} was added, and has not kept up within {deadline.timeout_s:.3g} s: it will vote "
                    "when it has, unless you remove it"
                )
            await pauses.pause(deadline)
            members = await self._servers.ask_members(GetMembers(), deadline)
        return number

    async def _waiting_at(self, address: Address) -> int:
        """The number of the server that waits there."""
        try:
            status = await ask_status(address, self._servers.links.tls)
        except Unavailable as error:
            raise Unavailable(f"no server answers at {address}: start it first ({error})") from error
        if status.get("state") != "waiting":
            raise InvalidInput(
                f"the server at {address} does not wait to be added, it is {status.get('state')}: start a new one with "
                "joining = true and an empty directory"
            )
        return int(status["server"])

    async def remove_orderer(self, orderer: int) -> None:
        whole(orderer, "orderer", 1, RAFT_NUMBER_MAX)
        await self._servers.ask_members(RemoveOrderer(orderer), Deadline(self._timeout_s))

    async def orderers(self) -> tuple[OrdererInfo, ...]:
        members = await self._servers.ask_members(GetMembers(), Deadline(self._timeout_s))
        return tuple(OrdererInfo(each.server, str(each.address), each.votes, each.leads) for each in members.members)

    async def sessions(self) -> tuple[SessionInfo, ...]:
        found: list[SessionInfo] = []
        deadline, after = Deadline(self._timeout_s), 0
        while True:
            answer = await self._servers.ask(GetSessions(after), deadline)
            if not isinstance(answer, SessionsAre):
                raise ProtocolError(f"a server answered GetSessions with {type(answer).__name__}")
            if not answer.items:
                return tuple(found)
            found += [SessionInfo(name, epoch, str(LANE), None) for _, name, epoch in answer.items]
            after = answer.items[-1][0]

    async def expire_session(self, name: str) -> None:
        check_session_name(name)
        await self._servers.ask(EndSession(name), Deadline(self._timeout_s))
