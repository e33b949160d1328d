"""The demo's checker accepts what it should, and names each way in which a log can be wrong."""

from collections.abc import Iterator

import pytest

from ithaca.apps.demo_cast import DemoFailed
from ithaca.apps.demo_cluster_checks import Checker
from ithaca.apps.demo_cluster_processes import Acknowledged
from ithaca.apps.running_hash import RunningHash
from ithaca.apps.transactions import transaction
from ithaca.model.records import Record

GOOD = [(1, 1), (2, 1), (2, 2), (1, 2)]
"""Producer and number of the transaction at each position."""
RECEIPTS = [Acknowledged(1, 1, 1, 1, 0, 0.0, 0.0), Acknowledged(2, 1, 2, 2, 1, 0.0, 0.0)]


def records_of(origins: list[tuple[int, int]]) -> list[Record]:
    def made() -> Iterator[Record]:
        for position, (producer, number) in enumerate(origins, 1):
            key, value = transaction(number, producer)
            yield Record(position, value, key, 0, 0)

    return list(made())


def digest_of(origins: list[tuple[int, int]]) -> str:
    running = RunningHash()
    running.add(records_of(origins))
    return running.hexdigest()


def check(origins: list[tuple[int, int]], receipts: list[Acknowledged], digest: str) -> None:
    checker = Checker(2, 2)
    for record in records_of(origins):
        checker.see([record])
    checker.finish(receipts, {"follower": digest})


def test_what_was_sent_is_accepted() -> None:
    check(GOOD, RECEIPTS, digest_of(GOOD))


@pytest.mark.parametrize(
    ("origins", "complaint"),
    [
        ([(1, 1), (1, 1)], "transaction 1 of producer 1 where 2 must come: doubled"),
        ([(1, 2)], "transaction 2 of producer 1 where 1 must come: lost"),
        ([(3, 1)], "producer 3: there is none"),
        ([(1, 1), (1, 2), (2, 1)], "producer 2 sent 2 transactions, and the log holds 1"),
    ],
    ids=str,
)
def test_a_log_that_is_wrong_is_named(origins: list[tuple[int, int]], complaint: str) -> None:
    with pytest.raises(DemoFailed, match=complaint):
        check(origins, [], digest_of(origins))


def test_other_bytes_are_named() -> None:
    key, value = transaction(1, 1)
    with pytest.raises(DemoFailed, match="nobody has sent"):
        Checker(2, 2).see([Record(1, value.replace(b"memo", b"omem"), key, 0, 0)])


def test_a_receipt_that_lies_is_named() -> None:
    with pytest.raises(DemoFailed, match="transaction 2 is at position 3, and it is at 4"):
        check(GOOD, [Acknowledged(1, 2, 1, 3, 0, 0.0, 0.0)], digest_of(GOOD))


def test_a_follower_that_saw_another_order_is_named() -> None:
    with pytest.raises(DemoFailed, match="follower has seen other records, or another order"):
        check(GOOD, RECEIPTS, digest_of(GOOD[::-1]))
