"""The named paths of this engine: code of it that only faults lead to (`sim.paths`)."""

from ithaca.sim.paths import SHARED_PATHS

_OF_OTHERS = (
    "lane: session forgotten",
    "lane: sessions listed",
    "storage: lane truncated",
    "raft: learner promoted",
    "raft: leader handed over",
    "raft: told that it was removed",
)
"""What the sessions and the changes of members of other engines lead to."""
_FLOWS = "ithaca.engines.corfu.sequencing.flows"

PATHS: dict[str, str] = {
    **{name: where for name, where in SHARED_PATHS.items() if name not in _OF_OTHERS},
    "unit: sealed": "ithaca.engines.corfu.sequencing.unit:Unit._seal",
    "unit: trimmed row written": "ithaca.engines.corfu.sequencing.unit:Unit._trimmed_answer",
    "unit: trims copied": "ithaca.engines.corfu.sequencing.unit:Unit._take_trims",
    "unit: begun again": "ithaca.engines.corfu.server.unit:UnitServer._renew",
    "flow: row contended for": f"{_FLOWS}.contending:free_row",
    "flow: row chosen": f"{_FLOWS}.placing:placed_at",
    "flow: rows copied": f"{_FLOWS}.rebuilding:_copied",
    "unit: checkpoint written": "ithaca.engines.corfu.storage.unit_store:UnitStore.checkpoint",
    "unit: lane reclaimed": "ithaca.engines.corfu.storage.unit_store:UnitStore.reclaim",
    "sequencer: began": "ithaca.engines.corfu.sequencing.sequencer:Sequencer._begin",
    "sequencer: fenced": "ithaca.engines.corfu.sequencing.sequencer:Sequencer._fence",
    "flow: epoch ended": f"{_FLOWS}.reconfiguring:installed",
    "flow: row passed on": f"{_FLOWS}.settling:_passed",
    "flow: range settled": f"{_FLOWS}.beginning:_settled_range",
    "flow: seal followed": f"{_FLOWS}.knowledge:followed",
    "client: hole mended": "ithaca.engines.corfu.client.rows:RowReader._mend",
    "projection: next": "ithaca.engines.corfu.sequencing.state:ProjectionState._next",
}
