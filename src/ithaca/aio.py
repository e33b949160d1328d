"""Ithaca, awaited: the same names as `ithaca`, for asyncio.

```python
import ithaca.aio

async with ithaca.aio.open("./events") as log:
    receipt = await log.append(b"hello")
    async for record in log.subscribe(start="earliest"):
        ...

async with ithaca.aio.connect("127.0.0.1:7600") as log:
    ...
```
"""

from ithaca.client.log import connect
from ithaca.embedded.aio import open
from ithaca.model.errors import (
    AddressInUse,
    AuthenticationFailed,
    BatchTooLarge,
    ConfigError,
    Corrupt,
    DeadlineExceeded,
    Fenced,
    ForkedHandle,
    FormatTooNew,
    InvalidInput,
    IthacaError,
    LastShard,
    LogClosed,
    LogError,
    LogInUse,
    Lost,
    NoSuchLog,
    NoSuchShard,
    NotWritten,
    Overloaded,
    PositionError,
    ProtocolError,
    PublishConflict,
    ReadOnly,
    RecordTooLarge,
    SequenceGap,
    SessionError,
    SessionExpired,
    SessionFenced,
    ShardFinalized,
    StorageError,
    StorageFull,
    Trimmed,
    Unavailable,
    UnknownCompression,
    Unsupported,
    VersionMismatch,
    WrongLane,
)
from ithaca.model.interface_aio import (
    Admin,
    Batch,
    ClusterLog,
    ClusterStatus,
    Log,
    Pending,
    Records,
    ReplicaInfo,
    Session,
    ShardInfo,
    ShardPolicy,
    Subscription,
)
from ithaca.model.records import KeyFilter, Receipt, Record, Retention
from ithaca.version import VERSION as __version__

__all__ = [
    "AddressInUse",
    "Admin",
    "AuthenticationFailed",
    "Batch",
    "BatchTooLarge",
    "ClusterLog",
    "ClusterStatus",
    "ConfigError",
    "Corrupt",
    "DeadlineExceeded",
    "Fenced",
    "ForkedHandle",
    "FormatTooNew",
    "InvalidInput",
    "IthacaError",
    "KeyFilter",
    "LastShard",
    "Log",
    "LogClosed",
    "LogError",
    "LogInUse",
    "Lost",
    "NoSuchLog",
    "NoSuchShard",
    "NotWritten",
    "Overloaded",
    "Pending",
    "PositionError",
    "ProtocolError",
    "PublishConflict",
    "ReadOnly",
    "Receipt",
    "Record",
    "RecordTooLarge",
    "Records",
    "ReplicaInfo",
    "Retention",
    "SequenceGap",
    "Session",
    "SessionError",
    "SessionExpired",
    "SessionFenced",
    "ShardFinalized",
    "ShardInfo",
    "ShardPolicy",
    "StorageError",
    "StorageFull",
    "Subscription",
    "Trimmed",
    "Unavailable",
    "UnknownCompression",
    "Unsupported",
    "VersionMismatch",
    "WrongLane",
    "__version__",
    "connect",
    "open",
]
