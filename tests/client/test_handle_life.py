"""Whether a handle can be used, and when its trims are done."""

import pytest

from ithaca.client.deadline import Deadline
from ithaca.client.handle_life import HandleLife
from ithaca.client.trim_seen import trim_seen
from ithaca.model.errors import ForkedHandle, LogClosed, Trimmed, Unavailable
from ithaca.model.view import Address


def test_a_handle_is_closed_once() -> None:
    life = HandleLife("the log")
    life.check()
    assert [life.end(), life.end()] == [True, False]
    with pytest.raises(LogClosed, match="the handle of the log was closed"):
        life.check()


def test_a_child_neither_uses_nor_closes_a_handle() -> None:
    life = HandleLife("the log")
    life.forked()
    assert not life.end()
    with pytest.raises(ForkedHandle, match="the handle of the log was inherited"):
        life.check()


async def test_a_trim_is_done_when_no_server_shows_what_was_trimmed() -> None:
    late, gone = Address("late", 1), Address("gone", 1)
    asked = {late: 0, gone: 0}

    async def read(address: Address, deadline: Deadline) -> object:
        asked[address] += 1
        if address == gone:
            raise Unavailable("nobody listens")
        if asked[address] == 3:
            raise Trimmed("position 1 was trimmed", first=2)
        return b"still shown"

    await trim_seen(asked, read)
    assert asked == {late: 3, gone: 1}
