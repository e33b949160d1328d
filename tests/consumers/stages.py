"""The stages of a pipeline, each a program: what one writes the next one reads, exactly once.

`python -m tests.consumers.stages BOOTSTRAP read|enrich|write` goes on until it is killed. Orders are read from text,
enriched with prices, and written as lines of a bill. Each stage takes the keys with its own prefix, and writes under
that of the next, in one transaction with its position.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import ithaca
from ithaca.model.errors import ConsumerFenced, IthacaError, PartGone
from ithaca.server.process import die_with_supervisor

PRICES = {"anchor": 1200, "lantern": 350, "rope": 75, "sail": 8000}
GROUP_PARTS = 4
LEASE_S = 1.0
POLL_RECORDS = 40
AGAIN_S = 0.05


class Stage(NamedTuple):
    """One step of all orders."""

    takes: bytes
    gives: bytes
    step: Callable[[bytes], bytes]
    is_group: bool = False


def read(text: bytes) -> bytes:
    """`customer;number;goods;count` as an order."""
    customer, number, goods, count = text.decode().split(";")
    return json.dumps({"customer": customer, "number": int(number), "goods": goods, "count": int(count)}).encode()


def enrich(order: bytes) -> bytes:
    """The order with what it costs."""
    fields = json.loads(order)
    return json.dumps(fields | {"cents": fields["count"] * PRICES[fields["goods"]]}).encode()


def write(order: bytes) -> bytes:
    """A line of the bill."""
    fields = json.loads(order)
    return f"{fields['number']:>8} {fields['count']:>3} {fields['goods']:<10} {fields['cents'] / 100:>10.2f}".encode()


STAGES = {
    "read": Stage(b"text/", b"order/", read),
    "enrich": Stage(b"order/", b"priced/", enrich, is_group=True),
    "write": Stage(b"priced/", b"bill/", write),
}


def consume(log: ithaca.ClusterLog, name: str, stage: Stage) -> None:
    """Go on where this stage was, until something fails."""
    where = ithaca.KeyFilter.prefix(stage.takes)
    options = {"group": True, "parts": GROUP_PARTS, "lease": LEASE_S} if stage.is_group else {}
    with log.consumer(name, where=where, **options) as consumer:  # type: ignore[arg-type]
        while True:
            records = consumer.poll(timeout=LEASE_S / 4, max_records=POLL_RECORDS)
            if not records:
                consumer.commit()  # so that what was asked back is handed over
                continue
            with consumer.transaction() as transaction:
                for record in records:
                    assert record.key is not None
                    key = stage.gives + record.key.removeprefix(stage.takes)
                    transaction.append(stage.step(record.value), key=key)


def main() -> None:
    die_with_supervisor()
    _, bootstrap, name = sys.argv
    while True:
        try:
            with ithaca.connect(bootstrap, timeout=10) as log:
                consume(log, name, STAGES[name])
        except IthacaError as error:
            if not (error.retry or error.outcome_unknown or isinstance(error, ConsumerFenced | PartGone)):
                raise
            time.sleep(AGAIN_S)


if __name__ == "__main__":
    main()
