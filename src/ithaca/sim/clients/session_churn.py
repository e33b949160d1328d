"""Clients that come and go beside names that are seldom used: handles that append once, sessions that are idle, tables
that are full.

A name must be there whenever its program comes back, however many handles came and went meanwhile; and plain appends
must go on while all names are taken. Drawn apart from the rest, so that the seeds without guests stay what they were.
"""

import asyncio
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from ithaca.model.errors import IthacaError, NamesFull, NoSuchSession, SessionError, SessionExpired
from ithaca.model.interface.awaited import ClusterLog, Session
from ithaca.model.limits import KIB, SESSION_NAME_BYTES_MAX
from ithaca.model.security.users import OPERATOR
from ithaca.proof import payload
from ithaca.sim.clients.connecting import AGAIN_S, connected
from ithaca.sim.faults.clocks import CLOCK, LEAP_CLOCKS
from ithaca.sim.faults.scripted import STEP_CLOCKS
from ithaca.sim.process import Process
from ithaca.users.names import owned_name

if TYPE_CHECKING:
    from ithaca.sim.configuration import Configuration
    from ithaca.sim.world import World

_CHANCE = 0.25
_MORE_ROOM_BYTES = 64 * KIB
_KEPT_S = 2.0
"""How often a name is used that is to stay, where idle ones go."""
_LEFT_MAX = 12
"""How many handles a guest may leave open: more sessions without a name than there are places for."""
IDLE_S = 20


def with_session_churn(configuration: "Configuration") -> "Configuration":
    """The same, or with guests, and with hardly more places for names and sessions than are needed."""
    random = Random(f"guests of {configuration.seed}")
    if random.random() >= _CHANCE:
        return configuration
    churners = random.randint(1, 2)
    named = configuration.producers + 2 * churners  # all of them
    every = named + 2 * configuration.producers + churners + random.randint(1, 4)
    limits = {
        "ORDERING_NAMED_SESSIONS_MAX": named,
        "ORDERING_SESSIONS_MAX": every,
        "LANE_SESSIONS_MAX": 2 * every,
        "LANE_SESSIONS_GONE_MAX": random.choice((4, 64)),
        "WRITERS_MAX": max(1, configuration.publishers + configuration.drivers),
        "NAMES_ANSWERED_MAX": 2,
        "SESSIONS_CHECK_S": 1,
        "SESSION_CROWD_IDLE_S": random.choice((1, 4)),
    }
    for name in ("ORDERING_STATE_BYTES_MAX", "RAFT_SNAPSHOT_BYTES_MAX"):  # for those that are beside the others
        if name in configuration.limits:
            limits[name] = configuration.limits[name] + _MORE_ROOM_BYTES
    # Clocks that are all set ahead while nobody has power are a power failure of as long, after which idle names go.
    may_leap = {*configuration.faults} & {CLOCK, STEP_CLOCKS, LEAP_CLOCKS}
    idle_s = IDLE_S if random.random() < 0.25 and not may_leap else 0
    return replace(
        configuration, session_churners=churners, session_idle_s=idle_s, limits=configuration.limits | limits
    )


class SessionChurner:
    """Visits with handles that append once; has a session that it seldom uses, and one that it has expire."""

    def __init__(self, world: "World", number: int) -> None:
        self.name = f"guest-{number}"
        self._world = world
        self._session = world.recorder.new_session()
        self._next_seq = 1
        self._unsettled: dict[int, int] = {}
        """Batches of the seldom used session that have no receipt: their counts, by first number."""
        self._acknowledged = 0
        """The last number of that session that is known to be in the log."""
        self._is_busy = False
        """Whether an append may be under way."""
        self.succeeded = 0

    @property
    def kept_name(self) -> str:
        """How the cluster keeps the name that is seldom used: a guest is the operator where there are users."""
        if not self._world.configuration.users:
            return self.name
        return owned_name(OPERATOR, self.name, bytes_max=SESSION_NAME_BYTES_MAX)

    @property
    def is_settled(self) -> bool:
        return not self._is_busy

    async def main(self, who: Process, random: Random) -> None:
        """One life of it."""
        self._is_busy = True
        log, other = await connected(self._world), await connected(self._world)
        await asyncio.gather(
            self._visit(who, random),
            self._come_back(who, random, log),
            self._begin_again(who, random, log),
            self._expire(random, other),
        )
        self._is_busy = False

    async def _visit(self, who: Process, random: Random) -> None:
        """One handle after the other, each for one append; some guests are slow to close them."""
        left: list[ClusterLog] = []
        left_max = Random(f"{self._world.configuration.seed} {self.name} is slow").choice((0, _LEFT_MAX))
        while self._world.is_loaded:
            handle = await connected(self._world)
            session = self._world.recorder.new_session()
            try:
                values = self._values(session, 1, 1)
                await self._world.recorder.append(who, session, 1, 1, None, lambda: handle.append_many(values))  # noqa: B023
                self.succeeded += 1
            except NamesFull as error:
                self._accuse(f"a plain append of {self.name} was refused: {error}")
            except IthacaError as error:
                self._world.met(error, "append")
            left.append(handle)
            while len(left) > left_max:
                await _close(left.pop(0))
            await asyncio.sleep(random.uniform(0, self._world.configuration.pause_between_appends_s))
        await asyncio.gather(*map(_close, left))

    async def _come_back(self, who: Process, random: Random, log: ClusterLog) -> None:
        """Open the session, see that it is the same as before, append a little, and leave it for a while."""
        while self._goes_on or self._unsettled:
            try:
                session = await log.session(self.name)
                if session.next_seq <= self._acknowledged:
                    self._accuse(
                        f"{self.name} goes on with {session.next_seq}, and {self._acknowledged} was acknowledged"
                    )
                await self._use(who, random, session)
                while self._world.configuration.session_idle_s and self._goes_on:
                    await asyncio.sleep(_KEPT_S)
                    await self._use(who, random, session)
            except (NamesFull, SessionExpired) as error:
                self._accuse(f"the name {self.name}, which nobody has expired, was refused: {error}")
            except IthacaError as error:
                self._world.met(error, "use a name")
                await asyncio.sleep(AGAIN_S)
            else:
                await self._leave(random)

    @property
    def _goes_on(self) -> bool:
        return self._world.is_loaded or self._world.awaits_idle_names

    async def _use(self, who: Process, random: Random, session: Session) -> None:
        if not self._unsettled and self._goes_on:
            count = random.randint(1, self._world.configuration.records_max)
            self._unsettled[self._next_seq] = count
            self._next_seq += count
        for seq, count in sorted(self._unsettled.items()):
            values = self._values(self._session, seq, count)
            await self._world.recorder.append(
                who,
                self._session,
                seq,
                count,
                None,
                lambda values=values, seq=seq: session.append_many(values, seq=seq),  # type: ignore[misc]
            )
            del self._unsettled[seq]
            self._acknowledged = seq + count - 1
            self.succeeded += 1

    async def _leave(self, random: Random) -> None:
        """For longer than the handles of others live; not while everything waits for this guest."""
        for _ in range(int(random.uniform(0, 8) / AGAIN_S)):
            if not self._world.is_healing:
                await asyncio.sleep(AGAIN_S)
        await asyncio.sleep(AGAIN_S)

    async def _begin_again(self, who: Process, random: Random, log: ClusterLog) -> None:
        """A name that expires now and then, under whoever has it open."""
        while self._world.is_loaded:
            numbers = self._world.recorder.new_session()
            try:
                session = await log.session(f"{self.name}-again")
                offset = session.next_seq - 1
                for seq in range(1, random.randint(2, 4)):
                    values = self._values(numbers, seq, 1)
                    await self._world.recorder.append(
                        who,
                        numbers,
                        seq,
                        1,
                        None,
                        lambda values=values, seq=seq: session.append_many(values, seq=offset + seq),  # type: ignore[misc]  # noqa: B023
                    )
            except SessionError:
                self._world.count("session had expired")
            except IthacaError as error:
                self._world.met(error, "use a name")
                await asyncio.sleep(AGAIN_S)
            await asyncio.sleep(random.uniform(0, 1))

    async def _expire(self, random: Random, log: ClusterLog) -> None:
        """Have the name expire now and then, in some cases while it is opened again and again."""
        while self._world.is_loaded:
            await asyncio.sleep(random.uniform(0, 2))
            is_opened = random.random() < 0.5
            await asyncio.gather(self._expire_once(log), self._open_often(log, random.randint(2, 6) * is_opened))

    async def _expire_once(self, log: ClusterLog) -> None:
        try:
            await log.admin.expire_session(f"{self.name}-again")
            self._world.count("session expired by name")
        except NoSuchSession:
            pass
        except IthacaError as error:
            self._world.met(error, "expire a session")

    async def _open_often(self, log: ClusterLog, times: int) -> None:
        for _ in range(times):
            try:
                await log.session(f"{self.name}-again")
            except SessionError:
                self._world.count("session had expired")
            except IthacaError as error:
                self._world.met(error, "use a name")

    def _values(self, session: int, seq: int, count: int) -> list[bytes]:
        return [payload.encode(session, seq + row, payload.HEAD_BYTES) for row in range(count)]

    def _accuse(self, text: str) -> None:
        self._world.accuse("names", text)


async def _close(handle: ClusterLog) -> None:
    with suppress(IthacaError):
        await handle.close()
