"""What the parts of one handle share."""

from dataclasses import dataclass
from typing import Protocol
from weakref import WeakKeyDictionary

from ithaca.client.deadline import Deadline
from ithaca.client.handle_life import HandleLife
from ithaca.engines.scalog.client.links import Links
from ithaca.engines.scalog.client.order import Order
from ithaca.engines.scalog.client.read.reading import Reading
from ithaca.engines.scalog.client.read.seen import SeenRanges
from ithaca.engines.scalog.client.replicas import Replicas
from ithaca.model.view import Address


class Reader(Protocol):
    """An iteration that is told when its handle is closed."""

    def handle_closed(self) -> None: ...


@dataclass(eq=False, slots=True)
class Context:
    """One handle's ways to the cluster, and whether it can be used."""

    life: HandleLife
    links: Links
    order: Order
    replicas: Replicas
    reading: Reading
    seen: SeenRanges
    readers: "WeakKeyDictionary[Reader, None]"
    """In the order in which they began."""
    timeout_s: float

    def check(self) -> None:
        """Raise unless the handle can be used."""
        self.life.check()


async def open_context(
    addresses: tuple[Address, ...],
    timeout_s: float,
    links: Links,
    *,
    make_reading: type[Reading] = Reading,
) -> Context:
    """The ways to the cluster that has these orderers; `Unavailable` when none of them answers in time."""
    order = Order(links, addresses)
    try:
        await order.refresh(Deadline(timeout_s))
    except BaseException:
        await links.close()
        raise
    replicas, seen = Replicas(links, order), SeenRanges()
    return Context(
        life=HandleLife(f"the cluster at {', '.join(map(str, addresses))}"),
        links=links,
        order=order,
        replicas=replicas,
        reading=make_reading(order, replicas, seen, timeout_s),
        seen=seen,
        readers=WeakKeyDictionary(),
        timeout_s=timeout_s,
    )
