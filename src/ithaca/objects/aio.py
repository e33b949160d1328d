"""`ithaca.objects`, awaited: the same names.

```python
async with ithaca.aio.connect("127.0.0.1:7600") as log, ithaca.objects.aio.Store(log) as store:
    await store.put_many({b"a": b"1", b"b": b"2"})
```
"""

from ithaca.objects.awaited.proposal import Proposal
from ithaca.objects.awaited.replica import Replica, replicate
from ithaca.objects.awaited.store import Store
from ithaca.objects.awaited.versions import Versions
from ithaca.objects.context import Context, current
from ithaca.objects.settings import Settings
from ithaca.objects.transaction import Transaction
from ithaca.objects.version_index import Version
from ithaca.objects.view import Progress, View

__all__ = [
    "Context",
    "Progress",
    "Proposal",
    "Replica",
    "Settings",
    "Store",
    "Transaction",
    "Version",
    "Versions",
    "View",
    "current",
    "replicate",
]
