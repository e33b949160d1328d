"""Where to look for the order: the orderers in turn, whoever a redirect names, the aggregator that was assigned.

Orderers come and go: those that are there now, as far as was heard, are asked first, and then those of the file.
For replicas, spares and aggregators alike. No I/O here, and no clock.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ithaca.model.limits import RECONNECT_PAUSE_S_MAX, RECONNECT_PAUSE_S_MIN, SUSPECT_S, SUSPECTS_MAX
from ithaca.model.view import Address, Orderers


@dataclass(frozen=True, slots=True)
class _Stop:
    address: Address
    is_named: bool = False
    """Whether somebody named it; else it is its turn."""
    assigned_by: Address | None = None
    """The leader that assigned this aggregator."""


class Route:
    """The way of one server to the order, one attempt after the other.

    >>> leader, aggregator = Address("leader", 1), Address("aggregator", 1)
    >>> route = Route([leader])
    >>> route.next() == leader
    True
    >>> route.assigned(aggregator)
    >>> route.ended(0.0, had_joined=False), route.next() == aggregator
    (0.0, True)
    >>> pause_s = route.ended(0.0, had_joined=False)  # nobody is there
    >>> route.suspects(0.0) == (aggregator,), route.next() == leader, route.suspects(60.0)
    (True, True, ())
    """

    def __init__(self, orderers: Sequence[Address], pause_s_max: float = RECONNECT_PAUSE_S_MAX) -> None:
        self._of_file = tuple(orderers)
        self.newest = Orderers()
        """Where the orderers are, as the leader said last."""
        self._tried: set[Address] = set()
        self._at = _Stop(orderers[0])
        self._named: _Stop | None = None
        self._pause_s = RECONNECT_PAUSE_S_MIN
        self._pause_s_max = pause_s_max
        self._suspects: dict[Address, float] = {}
        """Aggregators that did not serve, and until when that counts."""

    def next(self) -> Address:
        """Whom to ask now."""
        named, self._named = self._named, None
        self._at = named or _Stop(self._turn())
        return self._at.address

    def learn(self, orderers: Orderers) -> None:
        """Somebody has said where the orderers are; one that is behind, or was removed, may know an older list."""
        if orderers.entry >= self.newest.entry and orderers.addresses:
            self.newest = orderers

    def redirected(self, leader: Address | None) -> None:
        """Whoever was asked knows who leads, or that nobody does."""
        self._named = None if leader is None else _Stop(leader, is_named=True)

    def assigned(self, to: Address) -> None:
        """The leader wants this aggregator to be used."""
        self._named = _Stop(to, is_named=True, assigned_by=self._at.assigned_by or self._at.address)

    def again(self) -> None:
        """Whoever is at the other end serves, and is to be joined again."""
        self._named = _Stop(self._at.address, is_named=True, assigned_by=self._at.assigned_by)

    def ended(self, now_s: float, *, had_joined: bool, was_silent: bool = False, was_refused: bool = False) -> float:
        """The attempt is over; says how long to pause before the next.

        An aggregator that did not serve is suspected, and the leader is asked for another. Who is named is asked at
        once, but never in a tight circle.
        """
        at = self._at
        if had_joined:
            self._tried = {at.assigned_by or at.address}  # that leader is asked last: perhaps it is gone
        if at.assigned_by is not None and self._named is None and (was_silent or not had_joined):
            self._suspects[at.address] = now_s + SUSPECT_S
            self._named = _Stop(at.assigned_by, is_named=True)
        is_near = had_joined or (at.is_named and not was_refused)
        self._pause_s = RECONNECT_PAUSE_S_MIN if is_near else min(2 * self._pause_s, self._pause_s_max)
        return 0.0 if self._named is not None and not at.is_named else self._pause_s

    def _turn(self) -> Address:
        """Another orderer each time, until all were asked."""
        addresses = list(dict.fromkeys((*self.newest.addresses, *self._of_file)))
        if self._tried.issuperset(addresses):
            self._tried.clear()
        address = next(address for address in addresses if address not in self._tried)
        self._tried.add(address)
        return address

    def suspects(self, now_s: float) -> tuple[Address, ...]:
        """The aggregators that did not serve lately."""
        self._suspects = {address: until_s for address, until_s in self._suspects.items() if until_s > now_s}
        return tuple(self._suspects)[-SUSPECTS_MAX:]


def orderers_status(orderers: Orderers) -> dict[str, Any]:
    """Where the orderers are, as a server heard last: clients that know none any more ask for this."""
    return {"entry": orderers.entry, "addresses": [str(address) for address in orderers.addresses]}
