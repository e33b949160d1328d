"""Ithaca: a shared log for Python. Every record from every shard in one total order.

```python
import ithaca

with ithaca.open("./events") as log:
    receipt = log.append(b"hello", key=b"user-7")
    assert log.read(receipt.position).value == b"hello"
```

`ithaca` is synchronous; `ithaca.aio` has the same names, awaited. Names are loaded when they are first
used, so that `import ithaca` and the command line stay quick.

How the one order comes about: `ithaca.engines.scalog.ordering.lanes`, where two cuts give positions to the
records between them. docs/architecture.md goes on from there.

What can be imported by users is listed here. Below: `model` are the words, the errors and the interface; `wire` is
bytes, `storage` lanes on a disk, `raft` consensus, `sessions` what is exactly once, `protocol` what all engines say,
`runtime` what waits, `consumers` and `users` states that every engine carries. `server` and `client` are what engines
share, `engines` has each engine in a folder, `embedded` is the log of a directory, `cluster` a cluster on this machine.
On the log: `archive` keeps and moves it, `objects` is state, `speculation` tasks before the order is final, `spark` the
log as tables and streams, `apps` programs that use it. `cli` is the command, `bench` measures, `testing` is a cluster
inside of a test. `sim` and `torture` try what is promised, and `proof` judges them. `version` is the version.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ithaca.version import VERSION as __version__

if TYPE_CHECKING:
    from ithaca import aio
    from ithaca.embedded.opening import open
    from ithaca.engines.connecting import connect
    from ithaca.model.consumers import ConsumerInfo, Lag
    from ithaca.model.errors import (
        AddressInUse,
        AuthenticationFailed,
        BatchTooLarge,
        ConfigError,
        Conflict,
        ConsumerFenced,
        Corrupt,
        DeadlineExceeded,
        Diverged,
        EmptyPosition,
        EngineMismatch,
        Fenced,
        ForkedHandle,
        FormatTooNew,
        InvalidInput,
        IthacaError,
        LastOrderer,
        LastShard,
        LogClosed,
        LogError,
        LogInUse,
        Lost,
        NamesFull,
        NoSuchConsumer,
        NoSuchLog,
        NoSuchMethod,
        NoSuchOrderer,
        NoSuchReplica,
        NoSuchSession,
        NoSuchShard,
        NoSuchUnit,
        NoSuchUser,
        NoSuchWriter,
        NotAllowed,
        NotEncodable,
        NotWritten,
        Overloaded,
        PartGone,
        PositionError,
        PositionTaken,
        ProtocolError,
        PublishConflict,
        ReadOnly,
        RecordTooLarge,
        SequenceConflict,
        SequenceGap,
        SessionError,
        SessionExpired,
        SessionFenced,
        ShardFinalized,
        StorageError,
        StorageFull,
        TaskFailed,
        Trimmed,
        Unavailable,
        UndoFailed,
        UnknownCompression,
        Unsupported,
        VersionMismatch,
        WrongLane,
        WrongObject,
        WrongVersion,
    )
    from ithaca.model.groups import GroupMember
    from ithaca.model.interface import (
        Admin,
        Batch,
        ClusterLog,
        ClusterStatus,
        Consumer,
        Consuming,
        Log,
        MissingInfo,
        OrdererInfo,
        PartWriter,
        Pending,
        PreparedAppends,
        Records,
        ReplicaInfo,
        Session,
        SessionInfo,
        ShardInfo,
        ShardPolicy,
        Speculation,
        Subscription,
        UnitInfo,
        UserInfo,
        WriterInfo,
    )
    from ithaca.model.parts import Part, Published
    from ithaca.model.records import KeyFilter, Receipt, Record, Retention
    from ithaca.model.security.tls import TLS
    from ithaca.model.security.users import UserLimits
    from ithaca.model.speculation import Confirmed, Delivered, Failed

_HOMES = (
    "ithaca.model.errors",
    "ithaca.model.records",
    "ithaca.model.parts",
    "ithaca.model.security.tls",
    "ithaca.model.consumers",
    "ithaca.model.groups",
    "ithaca.model.speculation",
    "ithaca.model.security.users",
    "ithaca.model.interface",
    "ithaca.embedded.opening",
    "ithaca.engines.connecting",
)

__all__ = [
    "TLS",
    "AddressInUse",
    "Admin",
    "AuthenticationFailed",
    "Batch",
    "BatchTooLarge",
    "ClusterLog",
    "ClusterStatus",
    "ConfigError",
    "Confirmed",
    "Conflict",
    "Consumer",
    "ConsumerFenced",
    "ConsumerInfo",
    "Consuming",
    "Corrupt",
    "DeadlineExceeded",
    "Delivered",
    "Diverged",
    "EmptyPosition",
    "EngineMismatch",
    "Failed",
    "Fenced",
    "ForkedHandle",
    "FormatTooNew",
    "GroupMember",
    "InvalidInput",
    "IthacaError",
    "KeyFilter",
    "Lag",
    "LastOrderer",
    "LastShard",
    "Log",
    "LogClosed",
    "LogError",
    "LogInUse",
    "Lost",
    "MissingInfo",
    "NamesFull",
    "NoSuchConsumer",
    "NoSuchLog",
    "NoSuchMethod",
    "NoSuchOrderer",
    "NoSuchReplica",
    "NoSuchSession",
    "NoSuchShard",
    "NoSuchUnit",
    "NoSuchUser",
    "NoSuchWriter",
    "NotAllowed",
    "NotEncodable",
    "NotWritten",
    "OrdererInfo",
    "Overloaded",
    "Part",
    "PartGone",
    "PartWriter",
    "Pending",
    "PositionError",
    "PositionTaken",
    "PreparedAppends",
    "ProtocolError",
    "PublishConflict",
    "Published",
    "ReadOnly",
    "Receipt",
    "Record",
    "RecordTooLarge",
    "Records",
    "ReplicaInfo",
    "Retention",
    "SequenceConflict",
    "SequenceGap",
    "Session",
    "SessionError",
    "SessionExpired",
    "SessionFenced",
    "SessionInfo",
    "ShardFinalized",
    "ShardInfo",
    "ShardPolicy",
    "Speculation",
    "StorageError",
    "StorageFull",
    "Subscription",
    "TaskFailed",
    "Transaction",
    "Trimmed",
    "Unavailable",
    "UndoFailed",
    "UnitInfo",
    "UnknownCompression",
    "Unsupported",
    "UserInfo",
    "UserLimits",
    "VersionMismatch",
    "WriterInfo",
    "WrongLane",
    "WrongObject",
    "WrongVersion",
    "__version__",
    "aio",
    "connect",
    "open",
]


def __getattr__(name: str) -> Any:
    if name == "aio":
        return import_module("ithaca.aio")
    if name in __all__:
        for home in _HOMES:
            value = getattr(import_module(home), name, None)
            if value is not None:
                globals()[name] = value
                return value
    raise AttributeError(f"module 'ithaca' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
