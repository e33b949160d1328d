"""One member of a Raft group, as the server that hosts it knows it from its cluster's file."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ithaca.model.errors import IthacaError
from ithaca.model.view import Address
from ithaca.protocol.greeting import Role
from ithaca.raft.messages import ServerId


@dataclass(frozen=True, slots=True)
class Words:
    """What members are called outside. The errors are of `model.errors`: peers learn them by name."""

    role: Role
    """In hellos and in messages, as in `role 3 leads`."""
    no_such: type[IthacaError]
    """There is no such member, or not any more."""
    last: type[IthacaError]
    """It is the last one that votes."""
    way_out: str
    """What to do about a member that has lost what it promised: the end of a sentence."""


@dataclass(frozen=True, slots=True)
class RaftMember:
    """Who this server is in its group."""

    server: ServerId
    words: Words
    founders: Callable[[], Mapping[ServerId, Address]]
    """Who founded the group, asked on the first start alone; empty for one that joins later: it knows of nobody, and
    waits to be added."""
    addresses: Mapping[ServerId, Address]
    """Of members whose addresses are not agreed on: groups of earlier versions have them in the file alone."""

    def named(self, server: ServerId) -> str:
        """What a member is called in a message."""
        return f"{self.words.role} {server}"

    def removed(self, server: ServerId) -> IthacaError:
        """What a member that was removed is told."""
        return self.words.no_such(f"{self.named(server)} was removed: stop it; a new one needs a new number")
