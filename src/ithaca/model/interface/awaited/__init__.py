"""The public interface, asynchronous: the source of the synchronous one. `log` first, then `records`, `parts` (prepared
appends), `consumers`, `speculation` and `admin`.

Same names, same parameters. What may wait is a coroutine. `read_range` and `subscribe` are plain calls that
give asynchronous iterators: arguments of a wrong kind are refused by the call, whereas the start, the tail
and errors about positions may be settled as late as on entering the iterator's context, or at its first step.
A handle belongs to the event loop in which it was opened. What is in `interface.shared` is the same for both.
"""

from ithaca.model.interface.awaited.admin import Admin
from ithaca.model.interface.awaited.consumers import Consumer, Consuming, Transaction
from ithaca.model.interface.awaited.log import ClusterLog, Log, Pending, Session
from ithaca.model.interface.awaited.parts import PartWriter, PreparedAppends
from ithaca.model.interface.awaited.records import Records, Subscription
from ithaca.model.interface.awaited.speculation import Speculation

__all__ = [
    "Admin",
    "ClusterLog",
    "Consumer",
    "Consuming",
    "Log",
    "PartWriter",
    "Pending",
    "PreparedAppends",
    "Records",
    "Session",
    "Speculation",
    "Subscription",
    "Transaction",
]
