"""Looks over the shoulders of servers: what can be judged only in the moment of a call, and not between steps.

Methods of the product are wrapped while a seed runs. What is seen there is compared with what all servers of the world
knew at that moment, which none of them can know by itself.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from ithaca.model.errors import Overloaded
from ithaca.protocol.greeting import Role
from ithaca.raft.core import RaftCore
from ithaca.raft.events import Effect, Event, Receive
from ithaca.raft.messages import AppendEntries, AppendReply, InstallSnapshot
from ithaca.runtime.admission import Admission
from ithaca.runtime.raft.driver import RaftDriver
from ithaca.runtime.raft.ports import Waiter
from ithaca.sim.rules.raft import RaftRules
from ithaca.sim.world import World

Sight = tuple[type, str, Callable[..., Any]]
"""A method of a class, by its name, and who is called in its place, with the method as the first argument."""


class Witness:
    """What was seen of consensus and of connections in one run."""

    def __init__(self, world: World, raft: RaftRules) -> None:
        self._world = world
        self._raft = raft

    def watched(self) -> AbstractContextManager[None]:
        """Look on while this lasts."""
        return seen(
            [
                (RaftDriver, "submit_read", self.reads),
                (RaftCore, "step", self.steps),
                (Admission, "admit", self.admissions),
            ]
        )

    def reads(self, original: Callable[..., None], driver: RaftDriver, waiter: Waiter) -> None:
        """A read index covers what anybody had committed when it was asked for."""
        asked = self._raft.committed

        def done(index: int) -> None:
            if index < asked:
                self._world.accuse(
                    "fresh-read", f"a read was answered as of entry {index}, and {asked} was committed before"
                )
            waiter.done(index)

        original(driver, Waiter(done, waiter.failed))

    def steps(self, original: Callable[..., list[Effect]], core: RaftCore, event: Event) -> list[Effect]:
        """Whoever hears of a higher term from those that are in it is in it, too."""
        effects = original(core, event)
        if isinstance(event, Receive) and isinstance(event.message, AppendEntries | AppendReply | InstallSnapshot):
            told = event.message
            if core.term < told.term:
                self._world.accuse(
                    "newest-term", f"orderer {core.node.id} stays in term {core.term}, and was told {told}"
                )
        return effects

    def admissions(self, original: Callable[..., None], admission: Admission, connection: object, role: Role) -> None:
        """Clients keep no server out."""
        try:
            original(admission, connection, role)
        except Overloaded as error:
            if role != "client" and admission.servers < admission.capacity.reserved:
                said = f"{admission.servers} servers and {admission.clients} clients are connected"
                self._world.accuse("reserved", f"{said}, and another server, a {role}, is told: {error}")
            raise


@contextmanager
def seen(sights: Sequence[Sight]) -> Iterator[None]:
    """Have these called instead while this lasts."""
    originals = [owner.__dict__[name] for owner, name, _ in sights]
    try:
        for (owner, name, see), original in zip(sights, originals, strict=True):
            setattr(owner, name, _seen(original, see))
        yield
    finally:
        for (owner, name, _), original in zip(sights, originals, strict=True):
            setattr(owner, name, original)


def _seen(original: Callable[..., Any], see: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def wrapper(*arguments: Any, **named: Any) -> Any:
        return see(original, *arguments, **named)

    return wrapper
