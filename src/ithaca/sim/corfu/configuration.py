"""What a seed of this engine is made of beyond what all engines share."""

from dataclasses import replace
from random import Random

from ithaca.sim.configuration import MEMBER_FAULTS, Configuration
from ithaca.sim.corfu.faults import KINDS
from ithaca.sim.scanning import with_files_that_end


def draw(shared: Configuration) -> Configuration:
    """Bounds so small that they are often reached, and in half of all seeds some of the engine's own faults."""
    random = Random(f"rows of {shared.seed}")
    limits = {
        "GRANT_ROWS": random.choice((4, 64, 1 << 16)),
        "BLOCK_ROWS": random.choice((4, 64, 4096)),
        "CHECKPOINT_LANE_BYTES": random.choice((2000, 64 << 20)),
        "LOCATED_ROWS_MAX": Random(f"located rows of {shared.seed}").choice((3, 4096)),
        "MISSING_ROWS_MAX": random.choice((2, 1024)),
        "SEQUENCER_SESSIONS_MAX": random.choice((3, 65_536, 65_536)),
        "STRETCH_ROWS_MIN": random.choice((1, 4, 16)),
        "WRITERS_MAX": random.choice((1, 3, 16)),
        "PATIENCE_MS": random.choice((200, 1000, 5000)),
        "JUNK_MS": random.choice((60, 300, 1000)),
    }
    stretches = Random(f"stretches of {shared.seed}")
    limits["STRETCH_ROWS_MAX"] = stretches.choice((1, 3, 128))
    limits["STRETCH_PARTS"] = stretches.choice((1, 2, 4))
    limits["STRETCH_BYTES_MAX"] = stretches.choice((1, 700, 1 << 20))
    limits["UNIT_GONE_MS"] = Random(f"gone units of {shared.seed}").choice((0, 200, 1000))
    faults = [kind for kind in shared.faults if kind not in MEMBER_FAULTS]
    if random.random() < 0.5:
        faults += random.sample(KINDS, random.randint(1, len(KINDS)))
    drawn = replace(
        shared,
        faults=tuple(sorted(faults)),
        limits=shared.limits | limits,
        publishers=0,
        spares=0,
        spare_orderers=0,
        retires=False,
        masking=False,
        order_interval_us=0,
        pool=random.choice((0, 0, 1, 2)),
    )
    return with_files_that_end(drawn)
