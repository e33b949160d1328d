"""What the parts of one handle share."""

from dataclasses import dataclass
from typing import Protocol
from weakref import WeakKeyDictionary

from ithaca.client.deadline import Deadline
from ithaca.engines.scalog.client.links import Links
from ithaca.engines.scalog.client.order import Order
from ithaca.engines.scalog.client.read.reading import Reading
from ithaca.engines.scalog.client.read.seen import SeenRanges
from ithaca.engines.scalog.client.replicas import Replicas
from ithaca.model.errors import ForkedHandle, LogClosed
from ithaca.model.view import Address


class Reader(Protocol):
    """An iteration that is told when its handle is closed."""

    def handle_closed(self) -> None: ...


@dataclass(eq=False, slots=True)
class Context:
    """One handle's ways to the cluster, and whether it can be used."""

    bootstrap: str
    links: Links
    order: Order
    replicas: Replicas
    reading: Reading
    seen: SeenRanges
    readers: "WeakKeyDictionary[Reader, None]"
    """In the order in which they began."""
    timeout_s: float
    is_closed: bool = False
    is_forked: bool = False

    def check(self) -> None:
        """Raise unless the handle can be used."""
        if self.is_forked:
            raise ForkedHandle(
                f"the handle of the cluster at {self.bootstrap} was inherited through a fork: connect again there"
            )
        if self.is_closed:
            raise LogClosed(f"the handle of the cluster at {self.bootstrap} was closed")


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
        bootstrap=", ".join(map(str, addresses)),
        links=links,
        order=order,
        replicas=replicas,
        reading=make_reading(order, replicas, seen, timeout_s),
        seen=seen,
        readers=WeakKeyDictionary(),
        timeout_s=timeout_s,
    )
