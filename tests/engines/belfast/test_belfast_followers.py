"""Whom a primary asks to say what is synced, and when."""

from typing import cast

from ithaca.engines.belfast.messages import TellSynced
from ithaca.engines.belfast.server.replica.followers import LaneFollowers
from ithaca.model.positions import LaneId
from ithaca.runtime.connection import Connection

LANE = LaneId(0, 0, 1)
ASKED, LET_OFF = TellSynced(LANE, is_wanted=True), TellSynced(LANE, is_wanted=False)


class Told:
    """What is said to one follower."""

    def __init__(self) -> None:
        self.messages: list[TellSynced] = []

    def send(self, message: TellSynced) -> None:
        self.messages.append(message)


def connection(told: Told) -> Connection:
    return cast(Connection, told)


def test_followers_are_asked_when_somebody_comes_and_let_off_when_nobody_is_left() -> None:
    followers, one, other = LaneFollowers(), Told(), Told()
    followers.add(connection(one), LANE)
    followers.add(connection(other), LANE)
    assert one.messages == []
    for is_wanted in (True, True, False, False):
        followers.want(is_wanted)
    assert one.messages == other.messages == [ASKED, LET_OFF]


def test_one_that_follows_again_is_asked_again_while_somebody_is_there() -> None:
    followers, before, again = LaneFollowers(), Told(), Told()
    followers.add(connection(before), LANE)
    followers.want(True)
    followers.remove(connection(before))
    followers.add(connection(again), LANE)
    assert (before.messages, again.messages) == ([ASKED], [ASKED])
    followers.want(False)
    assert (before.messages, again.messages) == ([ASKED], [ASKED, LET_OFF])
