"""What does not check out on a replica's disk: said in the log, in metrics and in the status, and marked.

Damage that is found when the replica starts has its lane quarantined, and the lane comes back from a peer. Damage
that a reader or a peer meets later is that request's answer, and they go on elsewhere; the lane is marked, to be
quarantined at the next start. The replica does not give it up before: of the lane all else can still be read here, and
perhaps only here.
"""

import logging
from typing import Any

from ithaca.engines.scalog.replica.core import ReplicaCore
from ithaca.engines.scalog.storage.lane_store import LaneStore
from ithaca.model.errors import Corrupt, IthacaError, StorageError
from ithaca.runtime.metrics import ReplicaMetrics

_log = logging.getLogger("ithaca.replica.disk")


class Damage:
    """The damage of one store, since it was opened."""

    def __init__(self, store: LaneStore, core: ReplicaCore, metrics: ReplicaMetrics) -> None:
        self._store = store
        self._core = core
        self._metrics = metrics
        for found in store.quarantined:
            if found.error is not None:
                metrics.damaged("starting")
                _log.error("%s; it is kept as %s, and fetched from a peer", found.error, found.name)

    def met(self, error: IthacaError) -> None:
        """Something has failed: take note if it did so for what is on this disk."""
        if not isinstance(error, Corrupt) or not error.file:
            return
        self._metrics.damaged("running")
        try:
            lane = self._store.mark_damaged(error)
        except StorageError as failure:
            _log.error("%s; and that cannot be noted: %s", error, failure)
            return
        if lane is not None:
            _log.error(
                "lane %s is damaged: %s; at the next start it is quarantined and fetched from a peer", lane, error
            )

    def status(self) -> list[dict[str, Any]]:
        """Lanes that are damaged, or were and are kept aside; `repaired` says whether all of the lane is here again."""
        marked = [
            {"lane": str(lane), "repaired": False, "kept": None, "reason": reason}
            for lane, reason in sorted(self._store.damaged.items())
        ]
        aside = [
            {
                "lane": None if found.lane is None else str(found.lane),
                "repaired": found.lane is None or self._core.has_all_ordered(found.lane),
                "kept": found.name,
                "reason": None if found.error is None else str(found.error),
            }
            for found in self._store.quarantined
        ]
        return marked + aside
