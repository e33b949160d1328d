"""State on the log: what people build on one, from one implementation on every engine and on the log of a directory.

```python
with ithaca.connect("127.0.0.1:7600") as log, ithaca.objects.Store(log) as store:
    store.put_many({b"a": b"1", b"b": b"2"})
```

`replicate` makes any class with deterministic methods a replicated state machine (CORFU-SMR). `Store` is one of keys
and values (CORFU-Store, Scalog-Store). `Versions` are objects in shards of the caller's choice (vScalog).
`ithaca.objects.aio` has the same names, awaited. Only the public interface of the log is used.

Read `machine` first, the pure core of a replica: records in, answers and chores out. `kind` is a class as commands and
bytes (`encoding`), `entries` what is written, under the keys of `names`; `context` what a command may ask. `agreement`
finds commands that are not deterministic, `snapshot` and `snapshot_directory` are states at positions, `retaining` is
what of the log may go, `settings` how a replica is run. `store_state` is the core of a store over `store_tables`, with
`transaction` and `view`; `version_index` that of versions. The shells are in `awaited`: `follower` plays the log,
`replica`, `store` and `versions` are what users hold, `snapshots` and `catalogue` what they keep in the log. `blocking`
is generated from them, for threads; `shared` has what neither waits for, `limit` is how long either waits, `limits` are
the bounds of all of it.

Invariants:

1. A command is applied once, at its position, by every replica alike, and answered where it was proposed after that.
2. A linearizable read sees everything that was acknowledged before it began.
3. What is trimmed is in a snapshot of every replica that was named, for every object of the log.
4. Replicas that differ do not answer any more, unless they were told not to look.
5. Nothing that is read from the log is executed: no pickle, no names of classes that are looked up.
"""

from ithaca.objects.blocking.proposal import Proposal
from ithaca.objects.blocking.replica import Replica, replicate
from ithaca.objects.blocking.store import Store
from ithaca.objects.blocking.versions import Versions
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
