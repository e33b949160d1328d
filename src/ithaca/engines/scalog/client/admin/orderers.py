"""Orderers that come and go, as a handle asks for it. Every call may be repeated: it says what shall be so."""

from ithaca.client.deadline import Deadline
from ithaca.engines.scalog.client.context import Context
from ithaca.engines.scalog.client.order import Order
from ithaca.model.addresses import parse_address
from ithaca.model.arguments import whole
from ithaca.model.errors import AddressInUse, DeadlineExceeded, InvalidInput, IthacaError, Unavailable
from ithaca.model.interface import OrdererInfo
from ithaca.model.limits import RAFT_NUMBER_MAX
from ithaca.model.view import Address, View
from ithaca.protocol.members import AddOrderer, GetMembers, MembersAre, RemoveOrderer
from ithaca.runtime.backoff import Backoff


class OrdererAdmin:
    """What `AsyncClusterAdmin` does with orderers."""

    _context: Context
    _order: Order

    async def add_orderer(self, address: str) -> int:
        self._context.check()
        place = parse_address(address)
        deadline, pauses = Deadline(self._context.timeout_s), Backoff()
        number = _member_at(await self._order.members(GetMembers(), deadline), place)
        if number is None:
            _refuse_taken(await self._order.fresh_view(deadline), place)
            number = await self._waiting_at(place, deadline)
        members = await self._order.members(AddOrderer(number, place), deadline)
        while not any(each.server == number and each.votes for each in members.members):
            if deadline.passed:
                raise DeadlineExceeded(
                    f"orderer {number} was added, and has not kept up within {deadline.timeout_s:.3g} s: it will vote "
                    "when it has, unless you remove it"
                )
            await pauses.pause(deadline)
            members = await self._order.members(GetMembers(), deadline)
            if not any(each.server == number for each in members.members):
                raise InvalidInput(f"orderer {number} was removed before it voted")
        await self._order.refresh(deadline)
        return number

    async def _waiting_at(self, address: Address, deadline: Deadline) -> int:
        """The number of the orderer that waits there."""
        try:
            status = await self._order.status_at(address, deadline)
        except Unavailable as error:
            raise _silent(address, error, deadline) from error
        if status.get("role") != "orderer":
            raise InvalidInput(f"{address} is a {status.get('role')}, not an orderer")
        state = status.get("state")
        if state != "waiting":
            raise InvalidInput(
                f"orderer {status.get('server')} at {address} does not wait to be added, it is {state}: "
                "start a new one with joining = true and an empty directory"
            )
        return int(status["server"])

    async def remove_orderer(self, orderer: int) -> None:
        self._context.check()
        whole(orderer, "orderer", 1, RAFT_NUMBER_MAX)
        deadline = Deadline(self._context.timeout_s)
        await self._order.members(RemoveOrderer(orderer), deadline)
        await self._order.refresh(deadline)

    async def orderers(self) -> tuple[OrdererInfo, ...]:
        self._context.check()
        members = await self._order.members(GetMembers(), Deadline(self._context.timeout_s))
        return tuple(OrdererInfo(each.server, str(each.address), each.votes, each.leads) for each in members.members)


def _member_at(members: MembersAre, address: Address) -> int | None:
    return next((each.server for each in members.members if each.address == address), None)


def _refuse_taken(view: View, address: Address) -> None:
    for shard in view.shards:
        for replica in shard.replicas:
            if replica.address == address:
                raise AddressInUse(f"{address} is the address of replica {shard.shard}/{replica.replica}")


def _silent(address: Address, error: IthacaError, deadline: Deadline) -> Unavailable:
    return Unavailable(
        f"no orderer answers at {address} within {deadline.timeout_s:.3g} s, and nothing was changed: start it first "
        f"({error})"
    )
