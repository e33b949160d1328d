"""Where a session lives: its lane's address, and the move to another lane when that one is closed."""

from collections.abc import Callable

from ithaca.client.deadline import Deadline
from ithaca.engines.scalog.client.links import Link
from ithaca.engines.scalog.client.order import Order
from ithaca.engines.scalog.client.replicas import Replicas, find_replica, find_shard, is_open
from ithaca.engines.scalog.messages.appending import GetSessionTail, SessionTailReply
from ithaca.engines.scalog.ordering.entries import MoveSession, OpenSession
from ithaca.engines.scalog.ordering.outcomes import RefusedEntry, Session, SessionMoved, SessionOpened
from ithaca.model.errors import (
    NamesFull,
    NoSuchShard,
    Overloaded,
    ProtocolError,
    SessionExpired,
    SessionFenced,
    Unavailable,
    WrongLane,
)
from ithaca.model.limits import HOME_LOOK_S, ORDERING_NAMED_SESSIONS_MAX
from ithaca.model.positions import LaneId
from ithaca.model.view import View
from ithaca.protocol.codec import Received
from ithaca.runtime.backoff import Backoff
from ithaca.sessions.carried import Carried, decode_carried, encode_carried, merged_carried

Choose = Callable[[View], LaneId | None]
"""A live lane of the view for a session to live in; None when there is none."""
ChooseInShard = Callable[[View, int], LaneId | None]
"""The same, in one shard."""


class Homes:
    """Opens sessions and moves them."""

    def __init__(
        self, order: Order, replicas: Replicas, choose: Choose, choose_in: ChooseInShard, timeout_s: float
    ) -> None:
        self._order = order
        self._replicas = replicas
        self._choose = choose
        self._choose_in = choose_in
        self._timeout_s = timeout_s

    async def link(self, lane: LaneId) -> Link:
        """The link to the replica that writes the lane."""
        replica = find_replica(self._order.view, lane)
        if replica is None:
            raise Unavailable(f"lane {lane} has no replica any more")
        return await self._replicas.link(replica.address)

    async def opened(self, name: str, deadline: Deadline, lane: LaneId | None = None) -> Session:
        """The session, under a new epoch; a new one lives in `lane`, or in one that is chosen.

        `WrongLane` when nothing can live in `lane`.
        """
        while True:
            home = lane or await self._chosen(deadline)
            for outcome in await self._order.propose(OpenSession(name, home), deadline):
                if isinstance(outcome, SessionOpened):
                    return outcome.session
                if isinstance(outcome, RefusedEntry) and outcome.reason == "the state is full":
                    raise Overloaded(f"session {name!r} cannot be opened: {outcome.reason}")
                if isinstance(outcome, RefusedEntry) and outcome.reason == "too many sessions":
                    raise NamesFull(
                        f"session {name!r} cannot be opened, since {ORDERING_NAMED_SESSIONS_MAX} names are taken: "
                        "expire one that nobody needs any more (ithaca session list, ithaca session expire NAME), or "
                        "set idle_s under [sessions] in the cluster's file"
                    )
                if isinstance(outcome, RefusedEntry) and lane is not None:
                    raise WrongLane(f"no session can live in lane {lane}: {outcome.reason}")
            if deadline.passed:
                raise Unavailable(f"no lane took session {name!r} within {deadline.timeout_s:.3g} s")
            await self._order.fresh_view(deadline)

    async def is_closed(self, lane: LaneId) -> bool:
        """Whether nothing more is ordered of the lane."""
        return not is_open(await self._order.fresh_view(Deadline(self._timeout_s)), lane)

    async def settled(self, session: Session) -> tuple[Session, tuple[Carried, ...]]:
        """The session at a home that is open, moved there if need be, and what is ordered of it elsewhere."""
        deadline = Deadline(self._timeout_s)
        known = await self._order.session(session.producer_id, deadline)
        if known is None:
            raise SessionExpired(
                f"session {session.name!r} has expired: open it again, and find out which of its records are there"
            )
        if known.epoch != session.epoch:
            raise SessionFenced(
                f"session {session.name!r} was opened again (epoch {known.epoch}); this handle has epoch "
                f"{session.epoch} and may not append any more"
            )
        view = await self._order.fresh_view(deadline)
        if is_open(view, known.home):
            return known, tuple(decode_carried(known.carried))  # a move whose outcome did not come back
        if find_shard(view, known.home.shard) is None:
            raise SessionExpired(f"session {session.name!r} lived in shard {known.home.shard}, which is gone")
        try:
            placed = await self._placed(known, deadline)
        except NoSuchShard:  # a shard stays for as long as a session lives there: this one has moved since, or expired
            return await self.settled(session)
        return await self._moved(known, placed, deadline), placed

    async def _placed(self, session: Session, deadline: Deadline) -> tuple[Carried, ...]:
        """The last batches of the session that are ordered, once its home is closed and complete."""

        def take(received: Received) -> tuple[tuple[int, int, int], ...]:
            if not isinstance(received.message, SessionTailReply):
                raise ProtocolError(f"a replica answered GetSessionTail with {type(received.message).__name__}")
            return received.message.placed

        question = GetSessionTail(session.home, session.producer_id)
        writer = find_replica(self._order.view, session.home)  # it may be why the lane is closed
        last = None if writer is None else writer.address
        # Another one may be why the lane is closed, and as silent.
        placed = await self._replicas.ask(
            session.home.shard, question, deadline, take, last=last, attempt_s=HOME_LOOK_S
        )
        here = [(*batch, session.home.shard) for batch in placed]
        return tuple(merged_carried(decode_carried(session.carried), here))

    async def _moved(self, session: Session, placed: tuple[Carried, ...], deadline: Deadline) -> Session:
        target = self._choose_in(self._order.view, session.home.shard) or await self._chosen(deadline)
        carried = encode_carried(placed)
        entry = MoveSession(session.producer_id, session.epoch, session.home, target, carried=carried)
        for outcome in await self._order.propose(entry, deadline):
            if isinstance(outcome, SessionMoved):
                return outcome.session
            if isinstance(outcome, RefusedEntry):
                raise Unavailable(f"session {session.name!r} cannot move to lane {target} now: {outcome.reason}")
        raise ProtocolError("an orderer did not say what became of a move")

    async def _chosen(self, deadline: Deadline) -> LaneId:
        """A live lane, waited for if there is none."""
        pauses = Backoff()
        while (lane := self._choose(self._order.view)) is None:
            if deadline.passed:
                raise Unavailable("no shard of the cluster has a lane that is open: are its replicas running?")
            await pauses.pause(deadline)
            await self._order.fresh_view(deadline)
        return lane
