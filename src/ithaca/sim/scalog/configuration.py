"""What a seed of this engine is made of beyond what all engines share.

Each has a random source of its own, so that one more leaves all others what they were; the order matters only where one
looks at what another has drawn.
"""

from dataclasses import replace
from random import Random

from ithaca.model.limits import KIB
from ithaca.sim.clients.edge_reader import with_edge_readers
from ithaca.sim.clients.name_claimant import with_claimant
from ithaca.sim.clients.session_churn import with_session_churn
from ithaca.sim.clients.spark_drivers import with_drivers
from ithaca.sim.configuration import Configuration
from ithaca.sim.faults.clocks import with_retention
from ithaca.sim.faults.replacing import with_replacing
from ithaca.sim.faults.running import with_running_faults
from ithaca.sim.faults.scripted import with_scripted_faults
from ithaca.sim.scalog.bad_moments import with_bad_moments
from ithaca.sim.scalog.connection_flood import with_flood
from ithaca.sim.scalog.lane_churn import with_lane_churn
from ithaca.sim.scalog.lost_runs import with_lost_runs
from ithaca.sim.scalog.storage_trouble import with_storage_trouble
from ithaca.sim.scanning import with_files_that_end

_MANY_SNAPSHOTS = 0.3
_SNAPSHOT_ENTRIES = 2


def draw(shared: Configuration) -> Configuration:
    drawn = with_scripted_faults(_with_aggregators(with_replacing(shared)))
    drawn = with_running_faults(_with_little_room(with_storage_trouble(with_retention(drawn))))
    drawn = with_claimant(with_lane_churn(with_flood(with_session_churn(with_drivers(drawn)))))
    return with_bad_moments(with_files_that_end(with_edge_readers(with_lost_runs(drawn))))


def with_many_snapshots(drawn: Configuration) -> Configuration:
    """Where orderers come and go, so many snapshots that some are taken while a change of them is under way."""
    random = Random(f"snapshots of {drawn.seed}")
    if not drawn.spare_orderers or random.random() >= _MANY_SNAPSHOTS:
        return drawn
    return replace(drawn, snapshot_entries=_SNAPSHOT_ENTRIES)


def _with_little_room(drawn: Configuration) -> Configuration:
    """Snapshots of the order travel in many chunks, and are encoded in many turns. In every third seed the state has so
    little room that now and then somebody is refused; what is there has a reserve, and goes on.
    """
    random = Random(f"room of {drawn.seed}")
    limits = {"SNAPSHOT_TURN_BYTES": random.choice((50, 256 * KIB)), "SNAPSHOT_PIECE_ITEMS": random.choice((2, 4096))}
    if random.random() < 1 / 3:
        most = random.choice((16, 32, 64)) * KIB
        limits |= {"ORDERING_STATE_BYTES_MAX": most, "ORDERING_STATE_RESERVE_BYTES": 64 * KIB}
        limits |= {"RAFT_SNAPSHOT_BYTES_MAX": most + 256 * KIB}
    chunk_bytes = random.choice((40, 100, 500))
    return replace(drawn, limits=drawn.limits | limits, snapshot_chunk_bytes=chunk_bytes)


def _with_aggregators(drawn: Configuration) -> Configuration:
    """Half of all seeds have some; of those, faults befall them alone in every fourth."""
    random = Random(f"aggregators of {drawn.seed}")
    levels = random.choice(((), (), (), (), (1,), (1,), (1, 1), (1, 1), (1, 2), (1, 1, 2)))
    focus = "aggregators" if levels and random.random() < 0.25 else drawn.focus
    return replace(drawn, aggregators=levels, focus=focus)
