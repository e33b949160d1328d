"""The five hardest situations of the engine, each staged and explored in every interleaving."""

import pytest
from tests.engines.corfu.model import Model
from tests.engines.corfu.scripts import appender, filler, opener, reader, rebuilder, sealer, trimmer
from tests.engines.corfu.world import World


def _has_copied(world: World) -> bool:
    """Whether the spare belongs to the chain of what was written before."""
    projection = world.raft.projection
    return projection is not None and 3 in projection.chain(0)


HARDEST = {
    "a seal between head and last, a retry, and a reader who fills": lambda: Model([appender(1), filler(0), sealer()]),
    "the sequencer is gone, and the session is opened again while its handle is paused with a row": lambda: Model(
        [appender(1), opener("s"), sealer(sequencer=2)],
        sessions=("s",),
        producers={0: (1, 1)},
        sequencers=(1, 2),
        mortal=(("sequencer", 1),),
        atomic=frozenset({2}),
    ),
    "the head is lost with batches of two sessions on their way": lambda: Model(
        [appender(1), appender(1), sealer(1)], mortal=(1,), atomic=frozenset({2})
    ),
    "a spare copies under fills and trims, then the source is lost": lambda: Model(
        [appender(1), sealer(2), rebuilder, trimmer(0), filler(0)],
        spares=(3,),
        staged=2,
        mortal=(1,),
        may_die=_has_copied,
    ),
    "two reconfigure, a zombie hands out rows, and a reader stays with a unit that was removed": lambda: Model(
        [appender(1), reader(8), sealer(2, sequencer=2), sealer()],
        sequencers=(1, 2),
        cut=frozenset({(2, 2)}),
        atomic=frozenset({3}),
    ),
}


@pytest.mark.parametrize("name", HARDEST)
def test_the_hardest_situations_hold_in_every_interleaving(name: str) -> None:
    assert HARDEST[name]().explore().ends >= 2, "there is more than one way to an end"
