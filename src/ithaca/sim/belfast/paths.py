"""The named paths of this engine: code of it that only faults lead to (`sim.paths`).

They are scalog's, without those that this engine's servers never take, and what belongs to slots, takeovers and
speculators.
"""

from ithaca.sim.scalog import paths as scalog

_OF_SCALOG = (
    "aggregator: reports passed on",
    "aggregator: signs of life passed on",
    "aggregator: leader lost",
    "aggregator: orderers told",
    "order: replica sent elsewhere",
    "order: cut refused",
    "order: let in without a lane",
)
"""What aggregators lead to, of which there are none here; what becomes of cuts that a leader of scalog proposes; and a
lane that a replica is given when it joins, which here the leader opens when one is due."""
_ENGINE = "ithaca.engines.belfast"
_ORDER = f"{_ENGINE}.speculation.order:SlotOrder"
_CORE = f"{_ENGINE}.replica.core:SlotCore"
_SPECULATION = f"{_ENGINE}.client.speculation:AsyncSpeculation"

PATHS: dict[str, str] = {
    **{name: where for name, where in scalog.PATHS.items() if name not in _OF_SCALOG},
    "order: snapshot taken": f"{_ENGINE}.speculation.state:BelfastState.snapshot_pieces",
    "order: lane taken over": f"{_ORDER}._take",
    "order: lane failed": f"{_ORDER}._fail",
    "order: slots begin": f"{_ORDER}._end_free",
    "order: publication waits for windows": f"{_ORDER}.reserve",
    "order: range started over": f"{_ENGINE}.speculation.progress:Progress.refused",
    "order: change waits until slots end": f"{_ENGINE}.server.orderer.leading:SlotLeaderService.order_when_free",
    "order: takeover goes by what was ordered meanwhile": f"{_ENGINE}.speculation.takeover:Takeover._go_on",
    "replica: promised": f"{_CORE}._promise",
    "replica: copy completed for a takeover": f"{_CORE}._complete",
    "replica: lane ended under its primary": f"{_CORE}._end_placing",
    "replica: places read from the disk": f"{_ENGINE}.server.replica.promises:_places_of",
    "replica: promise stored": f"{_ENGINE}.server.replica.promises:PromisesFile._store",
    "client: speculation failed": f"{_SPECULATION}._fail",
    "client: position asked of its owner": f"{_ENGINE}.client.reading:SlotReading._lacks",
}
