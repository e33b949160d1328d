"""What a seed of this engine is made of beyond what all engines share."""

from dataclasses import replace
from random import Random

from ithaca.model.limits import KIB, MIB
from ithaca.sim.configuration import Configuration


def draw(shared: Configuration) -> Configuration:
    """Ranges and copies so small that there are many of each; all servers are orderers."""
    random = Random(f"ranges of {shared.seed}")
    limits = {
        "RAFT_APPEND_BYTES_MAX": random.choice((KIB, 8 * KIB, MIB)),
        "DELIVER_BYTES_MAX": random.choice((KIB, 16 * KIB, 2 * MIB)),
        "SNAPSHOT_TURN_BYTES": random.choice((50, 256 * KIB)),
        "SNAPSHOT_PIECE_ITEMS": random.choice((2, 4096)),
        "GROUP_BYTES_MAX": random.choice((2 * KIB, 32 * MIB)),
        "NAMED_RANGES_MAX": Random(f"names of {shared.seed}").choice((2, 20, 256)),
    }
    return replace(
        shared,
        limits=shared.limits | limits,
        focus="everybody",
        publishers=0,
        spares=0,
        shards=1,
        replicas=1,
        masking=False,
        order_interval_us=0,
        snapshot_chunk_bytes=random.choice((40, 100, 500, MIB)),
    )
