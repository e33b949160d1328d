"""The prepared parts that this replica writes, for the peers that follow them."""

import asyncio

from ithaca.engines.scalog.server.replica.feed import OwnLaneFeed
from ithaca.model.errors import WrongLane
from ithaca.model.limits import PART_RECENT_BYTES_MAX
from ithaca.model.positions import LaneId
from ithaca.runtime.connection import Connection
from ithaca.storage.lane import Lane
from ithaca.wire.batch import Batch


class PartFeeds:
    """A feed for each part, from when it is made until it is sealed or gone."""

    def __init__(self) -> None:
        self._feeds: dict[LaneId, OwnLaneFeed] = {}
        self._awaited: dict[LaneId, asyncio.Event] = {}

    def made(self, lane: LaneId, storage: Lane) -> None:
        self._feeds[lane] = OwnLaneFeed(lane, storage, recent_bytes_max=PART_RECENT_BYTES_MAX)
        self._tell(lane)

    async def follow(self, connection: Connection, lane: LaneId, lsn: int) -> None:
        """Send a part that is written here, once it is made, until the connection ends."""
        if lane not in self._feeds:
            await self._awaited.setdefault(lane, asyncio.Event()).wait()
        feed = self._feeds.get(lane)
        if feed is None:
            raise WrongLane(f"part {lane} is not written here any more")
        await feed.follow(connection, lsn)

    def add(self, lane: LaneId, batch: Batch) -> None:
        feed = self._feeds.get(lane)
        if feed is not None:
            feed.add(batch)

    def ended(self, lane: LaneId) -> None:
        """Whoever still follows it is told by the order, and fetches what is missing."""
        self._feeds.pop(lane, None)
        self._tell(lane)

    def stop(self, connection: Connection) -> None:
        """The connection has ended."""
        for feed in self._feeds.values():
            feed.stop(connection)

    def _tell(self, lane: LaneId) -> None:
        awaited = self._awaited.pop(lane, None)
        if awaited is not None:
            awaited.set()
