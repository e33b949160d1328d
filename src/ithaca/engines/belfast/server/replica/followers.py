"""Followers of the own lane: they say what they have synced only while somebody speculates there.

The leader hears it of each follower in any case; the primary needs it for what it delivers, and for nothing else.
"""

from ithaca.engines.belfast.messages import TellSynced
from ithaca.model.positions import LaneId
from ithaca.runtime.connection import Connection


class LaneFollowers:
    """The connections on which peers follow a lane that is written here."""

    def __init__(self) -> None:
        self._lanes: dict[Connection, LaneId] = {}
        self._is_wanted = False

    def add(self, connection: Connection, lane: LaneId) -> None:
        """A peer follows the lane from here on; on a new connection it says nothing until it is asked."""
        self._lanes[connection] = lane
        if self._is_wanted:
            connection.send(TellSynced(lane, is_wanted=True))

    def remove(self, connection: Connection) -> None:
        self._lanes.pop(connection, None)

    def want(self, is_wanted: bool) -> None:
        """Have all say what they have synced, or no more."""
        if is_wanted != self._is_wanted:
            self._is_wanted = is_wanted
            for connection, lane in list(self._lanes.items()):
                connection.send(TellSynced(lane, is_wanted=is_wanted))
