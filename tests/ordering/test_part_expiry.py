"""When parts expire, and what becomes of one that is finished."""

import pytest
from tests.ordering.building import Driver, report

from ithaca.engines.scalog.ordering.leader import CutProposer
from ithaca.engines.scalog.ordering.prepared.entries import ExpireParts, OpenPart, RenewParts, SealPart
from ithaca.engines.scalog.ordering.prepared.expiry import LOOK_S_MAX, PartExpiry
from ithaca.engines.scalog.ordering.prepared.finishing import finish
from ithaca.engines.scalog.ordering.prepared.outcomes import PartOpened, PartSealed, StagedPart
from ithaca.model.errors import InvalidInput, PartGone

S = 1_000_000


class Term:
    def __init__(self) -> None:
        self.driver = Driver()
        self.lanes = self.driver.shard(0)
        self.expiry = PartExpiry(self.driver.state)

    def open(self, number: int, *, ttl_s: int) -> StagedPart:
        (opened,) = self.driver.apply(OpenPart(self.lanes[0], bytes([number]) * 16, ttl_s * S, time_us=0))
        assert isinstance(opened, PartOpened)
        return opened.part


def test_a_look_is_planned_for_the_part_that_expires_first() -> None:
    term = Term()
    assert not term.expiry.expires(None)
    assert term.expiry.expires(10 * S)
    assert term.expiry.look_in_s(4 * S) == 6.0
    assert not term.expiry.expires(10 * S)
    assert not term.expiry.expires(11 * S), "that is looked at afterwards"
    assert term.expiry.expires(9 * S)
    assert term.expiry.look_in_s(9 * S + 1) == 0.0


def test_what_expires_late_is_looked_at_now_and_then_since_the_orders_time_may_be_slow() -> None:
    term = Term()
    assert term.expiry.expires(1_000_000 * S)
    assert term.expiry.look_in_s(0) == LOOK_S_MAX


def test_those_expire_whose_time_is_up() -> None:
    term = Term()
    first, second = term.open(1, ttl_s=5), term.open(2, ttl_s=9)
    assert term.expiry.next_us == 5 * S
    assert term.expiry.look(5 * S - 1) is None
    assert term.expiry.look(5 * S) == ExpireParts((first.lane,), 5 * S)
    assert term.expiry.look(9 * S) == ExpireParts(tuple(sorted((first.lane, second.lane))), 9 * S)
    term.driver.apply(RenewParts(((first.lane, first.token),), 100 * S, time_us=8 * S))
    assert term.expiry.look(9 * S) == ExpireParts((second.lane,), 9 * S), "renewed meanwhile"
    assert term.expiry.next_us == 9 * S


def test_after_a_look_another_is_planned_for_whatever_comes_next() -> None:
    term = Term()
    assert term.expiry.expires(5 * S)
    term.expiry.look(5 * S)
    assert term.expiry.expires(7 * S)


def test_a_part_is_sealed_when_it_is_durable_at_its_length() -> None:
    term = Term()
    part = term.open(1, ttl_s=5)
    leader = CutProposer(term.driver.state)

    def synced(length: int) -> None:
        for replica in (0, 1):
            leader.receive(report(0, replica, {part.lane: length}))

    def finished(length: int = 3) -> object:
        return finish(term.driver.state, leader, part.lane, part.token, length)

    assert finished() is None
    synced(2)
    assert finished() is None
    synced(3)
    entry = finished()
    assert isinstance(entry, SealPart)
    assert entry.length == 3
    assert isinstance(finished(2), InvalidInput), "it is longer by now"
    assert finish(term.driver.state, None, part.lane, part.token, 3) is None, "nobody has reported to this leader"
    term.driver.apply(entry)
    assert finished() == PartSealed(part.lane, 3), "asked again"


@pytest.mark.parametrize("token", [b"\1" * 16, b"\2" * 16], ids=["expired", "another's"])
def test_a_part_that_is_gone_cannot_be_finished(token: bytes) -> None:
    term = Term()
    part = term.open(1, ttl_s=5)
    if token == part.token:
        term.driver.apply(ExpireParts((part.lane,), 5 * S))
    assert isinstance(finish(term.driver.state, None, part.lane, token, 3), PartGone)
