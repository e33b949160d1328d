"""What aggregators say to an orderer: that they are there, whom they have lost, and the reports and signs of life of
those below them."""

from collections.abc import Callable
from typing import Any

from ithaca.engines.scalog.messages.aggregation import (
    Alive,
    Assigned,
    Attach,
    Attached,
    Detach,
    Left,
    Probe,
    ReportsAre,
    SignsOfLife,
)
from ithaca.engines.scalog.server.orderer.aggregators import Aggregators
from ithaca.engines.scalog.server.orderer.answers import Answers
from ithaca.engines.scalog.server.orderer.streams import NewsStreams
from ithaca.protocol.codec import Received
from ithaca.runtime.connection import Connection


class CarriedRequests:
    """Takes those messages, of all connections."""

    def __init__(self, answers: Answers, streams: NewsStreams, aggregators: Aggregators) -> None:
        self._answers = answers
        self._streams = streams
        self._aggregators = aggregators
        self.handlers: dict[type, Callable[[Connection, Received, Any], None]] = {
            Attach: self._attach,
            Detach: lambda connection, _, message: aggregators.detach(connection, message),
            Left: lambda connection, _, message: streams.leave_one(connection, message.shard, message.replica),
            ReportsAre: self._reports,
            SignsOfLife: self._signs_of_life,
            Probe: lambda connection, request, _: connection.answer(request, Alive()),
        }

    def _attach(self, connection: Connection, request: Received, message: Attach) -> None:
        log = self._answers.log_to_lead(connection, request)
        if log is not None:
            parent = self._aggregators.attach(connection, message)
            connection.answer(request, Attached(log, self._answers.orderers) if parent is None else Assigned(parent))

    def _reports(self, connection: Connection, received: Received, message: ReportsAre) -> None:
        """Those of replicas that have joined elsewhere meanwhile were on their way: what they say comes again."""
        leading = self._answers.leading
        if leading is not None:
            has_joined = self._streams.has_joined
            leading.receive_all([each for each in message.reports if has_joined(connection, each.shard, each.replica)])

    def _signs_of_life(self, connection: Connection, received: Received, message: SignsOfLife) -> None:
        leading = self._answers.leading
        if leading is not None:
            for shard, replica, is_complete in message.signs:
                if self._streams.has_joined(connection, shard, replica):
                    leading.heard(shard, replica, is_complete)
