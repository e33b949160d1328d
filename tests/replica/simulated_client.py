"""A client of the world: one session that numbers its records, retries what is not answered, and moves."""

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.replica.simulated_replica import SimulatedReplica, again, check

from ithaca.engines.scalog.ordering.entries import MoveSession, OpenSession
from ithaca.engines.scalog.ordering.outcomes import Session
from ithaca.engines.scalog.replica.events import Appended, Request
from ithaca.model.errors import SessionError, Unavailable
from ithaca.model.limits import SESSION_BATCHES_MAX
from ithaca.model.positions import LaneId
from ithaca.sessions.carried import Carried, decode_carried, encode_carried, merged_carried
from ithaca.wire.batch import Batch
from ithaca.wire.build import build

if TYPE_CHECKING:
    from tests.replica.replica_world import World


@dataclass
class Sent:
    """A batch, and what its records are."""

    client: "SimulatedClient | None"
    batch: Batch
    values: tuple[bytes, ...]
    is_answered: bool = False


class SimulatedClient:
    def __init__(self, world: "World", number: int) -> None:
        self.world = world
        self.number = number
        self.renamed = 0
        self.session: Session | None = None
        self.next_seq: int | None = None
        """None while the home must be asked."""
        self.window: deque[Sent] = deque()
        """What was sent since the oldest batch without an answer: the home knows the last of a session alone."""
        self.wire: deque[tuple[LaneId, Sent]] = deque()
        """Appends on their way to the home, in order."""

    @property
    def unanswered(self) -> list[Sent]:
        return [sent for sent in self.window if not sent.is_answered]

    @property
    def name(self) -> str:
        return f"client {self.number}.{self.renamed}"

    def open(self, *, again: bool = False) -> None:
        """Open the session, or open it again as another process would."""
        lane = self.world.any_open_lane()
        if lane is not None and (self.session is None or again):
            self.world.send(OpenSession(self.name, lane))

    def opened(self, session: Session) -> None:
        self.session = session
        self.next_seq = None
        self.window.clear()  # the new process knows nothing of them: each is there once, or not at all

    def moved(self, session: Session) -> None:
        if self.session is not None and session.epoch == self.session.epoch:
            self.session = session
            self.send_again()

    def expired(self) -> None:
        self.session = None
        self.renamed += 1
        self.window.clear()

    def append(self) -> None:
        session = self.session
        if session is None or len(self.window) >= SESSION_BATCHES_MAX:
            return
        if self.next_seq is None:
            self._ask_next_seq(session)
            return
        count = self.world.rng.randint(1, 3)
        values = tuple(self.world.new_value() for _ in range(count))
        batch = build(values, timestamp_us=0, producer=(session.producer_id, session.epoch, self.next_seq))
        self.world.remember(batch, values, session.producer_id, self.next_seq)
        self.next_seq += count
        sent = Sent(self, batch, values)
        self.window.append(sent)
        self.wire.append((session.home, sent))

    def deliver(self) -> None:
        if self.wire:
            self.world.deliver_append(*self.wire.popleft())

    def send_again(self) -> None:
        """On a new connection; what was sent on the old one may still arrive, late."""
        if self.world.rng.random() < 0.6:
            self.wire.clear()
        if self.session is not None:
            self.wire += [(self.session.home, sent) for sent in self.unanswered]

    def answered(self, sent: Sent) -> None:
        sent.is_answered = True
        while self.window and self.window[0].is_answered:
            self.window.popleft()

    def give_up(self) -> None:
        """Nobody will ever know of a batch whether it was ordered: it goes on with what the home expects."""
        self.next_seq = None
        self.window.clear()
        self.wire.clear()

    def move(self) -> None:
        """If the home was closed, find out what it holds, and propose another."""
        session, world = self.session, self.world
        target = world.any_open_lane()
        if session is None or target is None or world.state.lanes.is_open(session.home):
            return
        server = world.any_server(lambda each: each.shard == session.home.shard and each.core is not None)
        placed = None if server is None else placed_of(server, session.home, session.producer_id)
        if placed is not None:
            carried = encode_carried(merged_carried(decode_carried(session.carried), placed))
            world.send(MoveSession(session.producer_id, session.epoch, session.home, target, carried=carried))

    def _ask_next_seq(self, session: Session) -> None:
        server = self.world.servers[session.home[:2]]
        if server.core is not None:
            try:
                self.next_seq = server.core.next_seq(session.home, session.producer_id, session.epoch)
            except (SessionError, Unavailable):
                self.world.counts["next number not known"] += 1


def placed_of(server: SimulatedReplica, lane: LaneId, producer_id: int) -> list[Carried] | None:
    """What a replica answers to `GetSessionTail`; None when it cannot."""
    assert server.core is not None
    if not server.core.has_every_batch(lane):
        return None
    found = server.disk[lane]
    check(5, not found.has_holes, f"lane {lane} cannot tell what was in its holes")
    placed: list[Carried] = []
    for batch in found.known(found.length):
        check(4, batch.end_lsn <= found.runs_end, f"lane {lane} is called complete, and has more than was ordered")
        position = found.position_of(batch.base_lsn)
        if batch.producer_id == producer_id:
            session = server.world.state.sessions.by_id.get(producer_id)
            is_at_home = session is not None and session.home == lane
            check(5, not is_at_home or not server.has_forgotten(lane, batch), f"{batch} of lane {lane} was forgotten")
            placed.append((batch.first_seq, batch.count, position or 0, lane.shard))
    return placed[-SESSION_BATCHES_MAX:]


def appended(lane: LaneId, sent: Sent) -> Appended:
    return Appended(Request(sent, 0), lane, again(sent.batch))
