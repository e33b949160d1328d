"""Where a storage server looks for the leader: at the orderers that it was told of last, and at those of its file."""

from ithaca.model.view import Address, Orderers


class KnownOrderers:
    """The orderers that are tried one after the other.

    >>> known = KnownOrderers((Address("a", 1), Address("b", 1)))
    >>> known.learn(Orderers(7, (Address("c", 1),)))
    >>> [known.next().host for _ in range(4)]
    ['c', 'a', 'b', 'c']
    """

    def __init__(self, of_file: tuple[Address, ...]) -> None:
        self._of_file = of_file
        self.newest = Orderers()
        """Where the orderers are, as the leader said last."""
        self._tried: set[Address] = set()

    def next(self) -> Address:
        """Another one each time: those that are there now as far as is known, then those of the file."""
        places = list(dict.fromkeys((*self.newest.addresses, *self._of_file)))
        if self._tried.issuperset(places):
            self._tried.clear()
        address = next(place for place in places if place not in self._tried)
        self._tried.add(address)
        return address

    def found(self) -> None:
        """One of them leads: the next search begins anew."""
        self._tried.clear()

    def learn(self, orderers: Orderers) -> None:
        """Somebody has said where they are."""
        if orderers.entry >= self.newest.entry and orderers.addresses:
            self.newest = orderers
