"""The public interface, synchronous: what every engine fulfils. Read `awaited.log` first: it is written by hand.

`awaited` is the interface of `ithaca.aio`, and the source; `tools/generate_sync.py` writes `blocking`, the same classes
for callers that wait, which this package lists. `shared` has what both give, `positions` is how both are indexed, and
`unsupported` the refusal of what an engine cannot do: a method that not every engine has raises it unless the engine
says otherwise. `tables` is records as tables of other packages.

The conformance suite (`tests/conformance`) states the behaviour behind these signatures, and runs against every engine.
"""

from ithaca.model.interface.blocking.admin import Admin
from ithaca.model.interface.blocking.consumers import Consumer, Consuming, Transaction
from ithaca.model.interface.blocking.log import ClusterLog, Log, Pending, Session
from ithaca.model.interface.blocking.parts import PartWriter, PreparedAppends
from ithaca.model.interface.blocking.records import Records, Subscription
from ithaca.model.interface.blocking.speculation import Speculation
from ithaca.model.interface.shared import (
    Batch,
    ClusterStatus,
    MissingInfo,
    OrdererInfo,
    ReplicaInfo,
    SessionInfo,
    ShardInfo,
    ShardPolicy,
    UnitInfo,
    UserInfo,
    WriterInfo,
)

__all__ = [
    "Admin",
    "Batch",
    "ClusterLog",
    "ClusterStatus",
    "Consumer",
    "Consuming",
    "Log",
    "MissingInfo",
    "OrdererInfo",
    "PartWriter",
    "Pending",
    "PreparedAppends",
    "Records",
    "ReplicaInfo",
    "Session",
    "SessionInfo",
    "ShardInfo",
    "ShardPolicy",
    "Speculation",
    "Subscription",
    "Transaction",
    "UnitInfo",
    "UserInfo",
    "WriterInfo",
]
