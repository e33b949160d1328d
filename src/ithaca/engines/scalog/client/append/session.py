"""Named sessions of this engine: where one is opened, and the producer behind it."""

from collections.abc import Callable

from ithaca.client.appending.named_session import NamedSession
from ithaca.client.deadline import Deadline
from ithaca.engines.scalog.client.append.appends import Appends
from ithaca.engines.scalog.client.append.home import Homes
from ithaca.engines.scalog.client.append.producer import Producer
from ithaca.engines.scalog.client.replicas import ASK_ANOTHER
from ithaca.engines.scalog.messages.appending import GetNextSeq, NextSeqIs
from ithaca.engines.scalog.ordering.outcomes import Session
from ithaca.model.errors import IthacaError, ProtocolError, WrongLane
from ithaca.model.limits import ATTEMPT_TIMEOUT_S
from ithaca.model.records import Compression
from ithaca.runtime.backoff import Backoff


class AsyncClusterSession(NamedSession):
    """A session with one home lane at a time."""

    _producer: Producer

    def __init__(
        self,
        session: Session,
        next_seq: int,
        appends: Appends,
        *,
        compression: Compression,
        timeout_s: float,
        check: Callable[[], None],
    ) -> None:
        producer = Producer(appends.homes, session, _Quiet(), one_by_one=True)
        super().__init__(
            session.name,
            next_seq,
            producer,
            appends.under_way,
            compression=compression,
            timeout_s=timeout_s,
            check=check,
        )
        producer.start()

    def __repr__(self) -> str:
        session = self._producer.session
        return f"<ithaca.aio.Session {self.name!r}, epoch {session.epoch}, home {session.home}, next {self.next_seq}>"


class _Quiet:
    """Nobody watches: callers wait for their batches themselves."""

    def has_room(self) -> None:
        pass

    def unreachable(self, error: IthacaError) -> None:
        pass

    def moved(self) -> None:
        pass

    def failed(self, error: IthacaError) -> None:
        pass


async def open_session(homes: Homes, name: str, deadline: Deadline) -> tuple[Session, int]:
    """The session under a new epoch, which its home knows of, and the number that continues it."""
    session = await homes.opened(name, deadline)
    pauses = Backoff()
    while True:
        try:
            link = await homes.link(session.home)
            question = GetNextSeq(session.home, session.producer_id, session.epoch)
            answer = (await link.request(question, min(ATTEMPT_TIMEOUT_S, max(deadline.left_s, 0.001)))).message
            if not isinstance(answer, NextSeqIs):
                raise ProtocolError(f"a replica answered GetNextSeq with {type(answer).__name__}")
            return session, answer.next_seq
        except (*ASK_ANOTHER, WrongLane):
            if deadline.passed:
                raise
        await pauses.pause(deadline)
        session, _ = await homes.settled(session)
