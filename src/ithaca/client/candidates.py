"""Servers that are asked one after the other, each once, and why those before did not answer."""

from collections import deque
from collections.abc import Iterable

from ithaca.model.errors import IthacaError
from ithaca.model.view import Address


class Candidates:
    """One round of asking; `problems` may be of several."""

    def __init__(self, addresses: Iterable[Address], problems: dict[Address, IthacaError] | None = None) -> None:
        self.tried: set[Address] = set()
        self.problems = {} if problems is None else problems
        self._left = deque(addresses)

    def next(self) -> Address | None:
        """Who is asked now; None when all were."""
        while self._left:
            address = self._left.popleft()
            if address not in self.tried:
                self.tried.add(address)
                return address
        return None

    def ask_next(self, address: Address) -> None:
        """This one is said to know more than the others."""
        self._left.appendleft(address)

    @property
    def reasons(self) -> str:
        """Why nobody answered, for people."""
        return "; ".join(f"{address}: {error}" for address, error in self.problems.items())
