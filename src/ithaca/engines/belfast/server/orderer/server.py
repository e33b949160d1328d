"""An ordering server of Belfast: scalog's, with parts of its own."""

from collections.abc import Callable

from ithaca.engines.belfast.server.orderer.leading import SlotLeaderService
from ithaca.engines.belfast.server.orderer.machine import BelfastMachine
from ithaca.engines.belfast.server.orderer.requests import SlotRequests
from ithaca.engines.belfast.server.orderer.streams import SlotStreams
from ithaca.engines.belfast.server.rights import BELFAST_RULES
from ithaca.engines.scalog.ordering.outcomes import Outcome
from ithaca.engines.scalog.server.orderer.leading import LeaderService
from ithaca.engines.scalog.server.orderer.machine import OrderingMachine
from ithaca.engines.scalog.server.orderer.requests import Requests
from ithaca.engines.scalog.server.orderer.server import OrdererServer
from ithaca.engines.scalog.server.orderer.streams import NewsStreams
from ithaca.runtime.raft.driver import RaftDriver
from ithaca.server.raft_host.host import RaftHost
from ithaca.server.status import encode_status


class SlotOrdererServer(OrdererServer):
    """One orderer of a cluster. `start`, then `wait` until it is stopped or fails, then `stop`."""

    rules = BELFAST_RULES

    def _make_machine(self) -> OrderingMachine:
        return BelfastMachine(self._entry_applied)

    def _make_streams(self) -> NewsStreams:
        return SlotStreams(lambda: self._slots_machine.slots_state)

    def _make_requests(self, host: RaftHost) -> Requests:
        return SlotRequests(
            self._slots_machine,
            host,
            self._slot_streams,
            lambda: encode_status(self.status()),
            self.metrics,
            self._aggregators,
            self._clock.lead,
        )

    def _make_leading(self, term: int, driver: RaftDriver, ready: Callable[[], None]) -> LeaderService:
        return SlotLeaderService(
            self._file,
            term,
            self._slots_machine.slots_state,
            driver,
            self.metrics,
            ready,
            self.hello,
            self._clock,
            self._slot_streams,
        )

    @property
    def _slots_machine(self) -> BelfastMachine:
        assert isinstance(self._machine, BelfastMachine)
        return self._machine

    @property
    def _slot_streams(self) -> SlotStreams:
        assert isinstance(self._streams, SlotStreams)
        return self._streams

    def _entry_applied(self, term: int, outcomes: list[Outcome]) -> None:
        super()._entry_applied(term, outcomes)
        if isinstance(self._requests, SlotRequests):
            self._requests.took(outcomes)
