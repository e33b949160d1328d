"""The protocol under every interleaving of small scenarios: what `sequencing` says must hold, holds (1 to 7)."""

import pytest
from tests.engines.corfu.model import Model
from tests.engines.corfu.scripts import (
    appender,
    filler,
    opener,
    reader,
    rebuilder,
    sealer,
    stretch_reader,
    tail_reader,
    trimmer,
    writer_at,
)

SCENARIOS = {
    "an append, and the epoch ends": lambda: Model([appender(1), sealer()]),
    "two appends of one handle, and the epoch ends": lambda: Model([appender(1, 2), sealer()]),
    "a reader fills the row of an append": lambda: Model([appender(1), filler(0)]),
    "two appends, and a reader fills": lambda: Model([appender(1), appender(1), filler(0)]),
    "a seal between head and last, and a reader fills": lambda: Model([appender(1), filler(0), sealer()]),
    "the head is removed, and a reader is late": lambda: Model([appender(1), reader(0, 8), sealer(1)]),
    "two appends, one of which is filled, and a reader of both": lambda: Model(
        [appender(1), appender(1), filler(0), stretch_reader(0, 2)]
    ),
    "the last is removed, and a reader of a stretch stays with it": lambda: Model(
        [appender(1), stretch_reader(0, 2), sealer(2)], cut=frozenset({(2, 2)})
    ),
    "two sets, and a reader of both": lambda: Model(
        [appender(1), appender(1), stretch_reader(0, 2), sealer(1)], sets=((1, 2), (3, 4))
    ),
    "the last is removed, and a reader stays with it": lambda: Model([appender(1), reader(8), sealer(2)]),
    "a spare takes the place of the head": lambda: Model([appender(1), reader(8), sealer(1)], spares=(3,)),
    "a sequencer that was replaced goes on": lambda: Model(
        [appender(1), tail_reader, sealer(sequencer=2)], sequencers=(1, 2)
    ),
    "tails before and after": lambda: Model([tail_reader, tail_reader, sealer(sequencer=2)], sequencers=(1, 2)),
    "two who reconfigure": lambda: Model([appender(1), sealer(), sealer(2)]),
    "a session is opened again": lambda: Model([appender(1), opener("s")], sessions=("s",), producers={0: (1, 1)}),
    "a session is opened again, and a reader fills": lambda: Model(
        [appender(1), opener("s"), filler(0)], sessions=("s",), producers={0: (1, 1)}
    ),
    "answers get lost": lambda: Model([appender(1), filler(0)], losses=1),
    "answers get lost while the epoch ends": lambda: Model([appender(1), sealer()], losses=1),
    "the sequencer is started again": lambda: Model([appender(1), tail_reader], restarts=1),
    "the sequencer is started again, and the session opened": lambda: Model(
        [appender(1), opener("s")], sessions=("s",), producers={0: (1, 1)}, restarts=1
    ),
    "the last unit dies": lambda: Model([appender(1), sealer(2)], mortal=(2,)),
    "two contend": lambda: Model([appender(1), appender(1)], contends=True),
    "two contend, and the epoch ends": lambda: Model([appender(1), appender(1), sealer()], contends=True),
    "they contend over two sets": lambda: Model([appender(1), appender(1)], sets=((1, 2), (3, 4)), contends=True),
    "a tail while they contend": lambda: Model([appender(1), tail_reader, tail_reader], contends=True),
    "from a sequencer to none": lambda: Model([appender(1), tail_reader, sealer(sequencer=0)]),
    "from none to a sequencer": lambda: Model([appender(1), tail_reader, sealer(sequencer=1)], contends=True),
    "a session is opened again while they contend": lambda: Model(
        [appender(1), opener("s")], sessions=("s",), producers={0: (1, 1)}, contends=True
    ),
    "answers get lost while they contend": lambda: Model([appender(1), appender(1)], losses=1, contends=True),
    "two choose the same row": lambda: Model([writer_at(0), writer_at(0)]),
    "one chooses a row, another appends": lambda: Model([writer_at(1), appender(1, 2)]),
    "one chooses a row, another fills it": lambda: Model([writer_at(0), filler(0)]),
    "one chooses a row, and the epoch ends": lambda: Model([writer_at(0), appender(1), sealer()]),
    "one chooses a row, another contends": lambda: Model([writer_at(0), appender(1)], contends=True),
    "a spare copies, and a row is trimmed": lambda: Model(
        [appender(1), sealer(2), rebuilder, trimmer(0)], spares=(3,), staged=2
    ),
    "a spare copies while the epoch ends": lambda: Model(
        [appender(1), sealer(2), rebuilder, sealer()], spares=(3,), staged=2
    ),
}

CAMPAIGN = {
    "two appends, a reader fills, and the epoch ends": lambda: Model([appender(1), appender(1), filler(0), sealer()]),
    "two appends, and the epoch ends": lambda: Model([appender(1), appender(1), sealer()]),
    "a session is opened again when the sequencer is gone": lambda: Model(
        [appender(1), opener("s"), sealer(sequencer=2)], sessions=("s",), producers={0: (1, 1)}, sequencers=(1, 2)
    ),
    "a slow sequencer": lambda: Model([appender(1), filler(0), sealer()], is_quick=False),
    "a reader fills, two reconfigure, one without the head": lambda: Model(
        [appender(1), filler(0), sealer(), sealer(1)]
    ),
    "two answers get lost while the epoch ends": lambda: Model([appender(1), filler(0), sealer()], losses=2),
    "a session is opened again while they contend, and a reader fills": lambda: Model(
        [appender(1), opener("s"), filler(0)], sessions=("s",), producers={0: (1, 1)}, contends=True
    ),
    "two sets": lambda: Model([appender(1), appender(1), sealer(1)], sets=((1, 2), (3, 4))),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_holds_in_every_interleaving(name: str) -> None:
    model = SCENARIOS[name]().explore()
    assert model.ends >= 2, "there is more than one way to an end"


@pytest.mark.campaign
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", CAMPAIGN)
def test_holds_in_every_interleaving_of_more(name: str) -> None:
    CAMPAIGN[name]().explore(20_000_000)
