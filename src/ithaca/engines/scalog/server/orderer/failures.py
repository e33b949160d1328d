"""Has done what `ordering.decisions.failures` says about silent replicas, during one term."""

import logging
from functools import partial

from ithaca.engines.scalog.ordering.decisions.failures import Act, Complete, FailureEffect, Failures
from ithaca.engines.scalog.ordering.decisions.spares import Warn
from ithaca.engines.scalog.ordering.outcomes import Outcome
from ithaca.engines.scalog.ordering.state import OrderingState
from ithaca.engines.scalog.server.orderer.ports import Submit, Warnings
from ithaca.engines.scalog.server.orderer.spares import SpareService
from ithaca.model.config.failures import FailurePolicy
from ithaca.model.errors import IthacaError
from ithaca.runtime.machine import monotonic_ns

_log = logging.getLogger("ithaca.orderer")


class FailureService:
    """Watches replicas, and submits what is decided about silent ones."""

    def __init__(
        self,
        policy: FailurePolicy,
        state: OrderingState,
        spares: SpareService,
        submit: Submit,
        warnings: Warnings,
        *,
        leaves_shards: bool,
    ) -> None:
        """`leaves_shards`: whether the lanes of a shard that cannot order are closed."""
        self._spares = spares
        self._submit = submit
        self._warnings = warnings
        self._core = Failures(policy, state, spares.core, _now_us(), leaves_shards=leaves_shards)
        self.look_s = self._core.look_s
        """How often to `look`."""
        self.heard = self._core.heard
        self.heard_all = self._core.heard_all
        self.availability = self._core.availability

    def look(self) -> None:
        """Look who is silent, and answer that."""
        self._perform(self._core.look(_now_us()))

    def _perform(self, effects: list[FailureEffect]) -> None:
        for effect in effects:
            match effect:
                case Act(shard, entry, why):
                    _log.warning("shard %d: %s", shard, why)
                    self._submit(entry, partial(self._ordered, shard), partial(self._not_ordered, shard))
                case Complete(shards, forgets_absent):
                    self._spares.complete(shards, forgets_absent=forgets_absent)
                case Warn(text):
                    self._warnings.tell(text)

    def _ordered(self, shard: int, outcomes: list[Outcome]) -> None:
        self._perform(self._core.ordered(shard, outcomes))

    def _not_ordered(self, shard: int, error: IthacaError) -> None:
        self._core.not_ordered(shard)


def _now_us() -> int:
    return monotonic_ns() // 1000
