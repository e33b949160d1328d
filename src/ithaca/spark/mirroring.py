"""A query's progress as that of a named consumer, so that its lag is seen where that of others is.

Where the query goes on is its checkpoint's to say. So nothing waits for the mirror, and what it cannot say now it says
with the next batch.
"""

import logging
from collections.abc import Callable

from ithaca.model.consumers import CommitPosition, ConsumerRefused, OpenConsumer, PartStands, refusal_error
from ithaca.model.errors import Unavailable
from ithaca.model.interface import Log
from ithaca.runtime.machine import rng

_log = logging.getLogger("ithaca.spark")


class ConsumerMirror:
    """The named consumer of one query."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._owner = rng().randrange(1, 1 << 61)

    def move(self, opened_log: Callable[[], Log], position: int) -> None:
        """Everything below was processed. Whoever had the consumer is fenced: the query that moves last is shown."""
        try:
            log = opened_log()
            (opened,) = log.change_consumers((OpenConsumer(self._name, self._owner, position),))
            if isinstance(opened, PartStands):
                (opened,) = log.change_consumers((CommitPosition(self._name, 0, opened.epoch, position),))
        except Unavailable as error:
            _log.warning("consumer %r does not show position %d yet: %s", self._name, position, error)
            return
        if isinstance(opened, ConsumerRefused) and opened.reason != "fenced":
            raise refusal_error(opened)
