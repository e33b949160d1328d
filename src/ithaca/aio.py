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

# ruff: noqa: F401, F403 (what `ithaca.__all__` names is imported here, its errors among it)

from ithaca import __all__ as __all__
from ithaca.embedded.aio import open
from ithaca.engines.connecting import connect_awaited as connect
from ithaca.model.consumers import ConsumerInfo, Lag
from ithaca.model.errors import *
from ithaca.model.groups import GroupMember
from ithaca.model.interface.awaited import (
    Admin,
    ClusterLog,
    Consumer,
    Consuming,
    Log,
    PartWriter,
    Pending,
    PreparedAppends,
    Records,
    Session,
    Speculation,
    Subscription,
    Transaction,
)
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
from ithaca.model.parts import Part, Published
from ithaca.model.records import KeyFilter, Receipt, Record, Retention
from ithaca.model.security.tls import TLS
from ithaca.model.security.users import UserLimits
from ithaca.model.speculation import Confirmed, Delivered, Failed
from ithaca.version import VERSION as __version__

__all__ = [name for name in __all__ if name != "aio"]
