"""A part under way: batches that a replica refuses go again in turn."""

from types import SimpleNamespace
from typing import Any

import pytest

from ithaca.client.appending.under_way import UnderWay
from ithaca.client.inflight import InflightBytes
from ithaca.engines.scalog.client.append import part_writer
from ithaca.engines.scalog.client.append.part_writer import AsyncPartWriter
from ithaca.engines.scalog.messages.appending import AppendPart, PartSynced
from ithaca.model.errors import StorageFull, Unavailable
from ithaca.model.positions import LaneId

LANE = LaneId(0, 0, 1 << 30)


class Replica:
    """Knows the part from its third request on, and takes batches in turn only."""

    def __init__(self) -> None:
        self.length = 0
        self.asked: list[int] = []

    async def request(self, message: AppendPart, timeout_s: float, payload: Any) -> Any:
        self.asked.append(message.lsn)
        if len(self.asked) <= 3 or message.lsn != self.length:
            raise Unavailable("not yet")
        self.length += 1
        return SimpleNamespace(message=PartSynced(self.length))


class Other:
    """What else a writer needs: the order, the links, the appends of its handle."""

    def __init__(self, replica: Replica) -> None:
        self.view, self.under_way = None, UnderWay(InflightBytes(1 << 20, timeout_s=20), 20)
        self._replica = replica

    async def link(self, address: object) -> Replica:
        return self._replica

    async def part(self, *_: object) -> object:
        return self

    async def finish_part(self, *_: object) -> None: ...

    def settled(self, size: int) -> None:
        self.under_way.settle(size)


def write_to(replica: Replica, monkeypatch: pytest.MonkeyPatch) -> AsyncPartWriter:
    monkeypatch.setattr(part_writer, "find_replica", lambda view, lane: SimpleNamespace(address=None))
    other: Any = Other(replica)
    return AsyncPartWriter(
        LANE, bytes(16), other, other, other, compression="none", timeout_s=20, ttl_s=60, check=lambda: None
    )


async def test_what_was_refused_goes_again_behind_what_is_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    replica = Replica()
    writer = write_to(replica, monkeypatch)
    for number in range(3):
        await writer.append_many([b"%d" % number])
    part = await writer.finish()
    assert part.length == replica.length == 3
    assert replica.asked == [0, 1, 2, 0, 1, 2]


class Full(Replica):
    """Has no room for the first batch, and takes no other before it."""

    async def request(self, message: AppendPart, timeout_s: float, payload: Any) -> Any:
        self.asked.append(message.lsn)
        raise Unavailable("send what is before") if message.lsn else StorageFull("no room")


async def test_what_is_behind_a_batch_that_failed_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    replica = Full()
    writer = write_to(replica, monkeypatch)
    for number in range(3):
        await writer.append_many([b"%d" % number])
    with pytest.raises(StorageFull):
        await writer.finish()
    assert replica.asked == [0, 1, 2], "the others were not sent again and again until the deadline"


async def test_a_part_that_took_long_is_renewed_when_it_is_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    renewed: list[object] = []

    async def renew(order: object, names: object, ttl_s: float, deadline: object) -> None:
        renewed.append((names, ttl_s))

    monkeypatch.setattr(part_writer, "renew_parts", renew)
    quick, slow = write_to(Replica(), monkeypatch), write_to(Replica(), monkeypatch)
    await quick.finish()
    assert renewed == []
    slow._opened_s -= 60
    await slow.finish()
    await slow.finish()
    assert renewed == [(((LANE, bytes(16)),), 60)], "once, under its name"


async def test_a_part_is_kept_from_expiring_while_more_may_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    finished, closed, failed = (write_to(each, monkeypatch) for each in (Replica(), Replica(), Full()))
    assert [each.is_under_way for each in (finished, closed, failed)] == [True, True, True]
    await finished.append_many([b"x"])
    await finished.finish()
    await closed.close()
    await failed.append_many([b"x"])
    with pytest.raises(StorageFull):
        await failed.finish()
    assert [each.is_under_way for each in (finished, closed, failed)] == [False, False, False]
