"""What an aggregator does with what it is told: reports go up together, the order goes down to whom it concerns.

Nothing is kept but who has joined over which connection, and the reports and signs of life of the present turn of the
loop, the newest of each replica. Reports are never added up: which of them count is for the ordering layer to say, and
a minimum would outlive a change of the shard's members. When the link upwards ends, so does every connection of whoever
has joined: they join again, here or elsewhere, and their reports say everything again.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from msgspec.structs import replace

from ithaca.engines.scalog.messages.aggregation import (
    Alive,
    Attach,
    Attached,
    Detach,
    Left,
    OrderNews,
    Probe,
    ReportsAre,
    SignsOfLife,
)
from ithaca.engines.scalog.messages.reporting import Join, Joined, JoinedLanes, ReportIs, SignOfLife
from ithaca.engines.scalog.ordering.cut_slices import CutPart
from ithaca.engines.scalog.ordering.outcomes import Outcome
from ithaca.engines.scalog.ordering.reports import Report
from ithaca.engines.scalog.server.orderer.streams import NewsStreams
from ithaca.model.errors import IthacaError, Overloaded, ProtocolError, Unavailable
from ithaca.model.limits import (
    AGGREGATOR_HOLD_S_MAX,
    ORDERER_RETRY_S,
    ORDERING_REPLICAS_MAX,
    REPORT_LANES_MAX,
    REPORTS_TOGETHER_MAX,
)
from ithaca.protocol.codec import Message, Received
from ithaca.protocol.greeting import GetStatus, StatusIs
from ithaca.protocol.members import OrderersAre
from ithaca.runtime.connection import Connection
from ithaca.runtime.machine import monotonic_s
from ithaca.runtime.metrics import AggregatorMetrics


class Relay:
    """Takes the messages of everybody below, and what comes from above."""

    def __init__(self, number: int, status: Callable[[], bytes], metrics: AggregatorMetrics) -> None:
        self._number = number
        self._status = status
        self._metrics = metrics
        self.streams = NewsStreams()
        """Who has joined here, and what is to be told to them."""
        self.children: dict[int, Connection] = {}
        """Aggregators that have attached here."""
        self._up: Connection | None = None
        self._asked: dict[int, tuple[Connection, Received]] = {}
        """Requests that were passed on, by the correlation that they got there."""
        self._joining: Counter[tuple[int, int]] = Counter()
        self._attaching: Counter[int] = Counter()
        """Whose requests are among them, and how many."""
        self._reports: dict[tuple[int, int], Report] = {}
        self._signs: dict[tuple[int, int], bool] = {}
        self._flush: asyncio.Handle | None = None
        self._telling: asyncio.Handle | None = None
        self._held_until_s = 0.0
        self._handlers: dict[type, Callable[[Connection, Received, Any], None]] = {
            Join: lambda connection, request, message: self._ask(
                connection, request, replace(message, via=message.via or number)
            ),
            ReportIs: self._report,
            ReportsAre: self._reports_of_many,
            SignOfLife: self._sign_of_life,
            SignsOfLife: self._signs_of_many,
            Left: self._left_below,
            Attach: self._ask,
            Detach: self._detach,
            Probe: lambda connection, request, _: connection.answer(request, Alive()),
            GetStatus: lambda connection, request, _: connection.answer(request, StatusIs(self._status())),
        }

    # From below

    def on_message(self, connection: Connection, received: Received) -> None:
        handler = self._handlers.get(type(received.message))
        if handler is None:
            raise ProtocolError(f"an aggregator takes no {type(received.message).__name__} from {connection.name}")
        handler(connection, received, received.message)

    def on_lost(self, connection: Connection, error: IthacaError | None) -> None:
        for shard, replica in self.streams.leave(connection):
            self._say_left(shard, replica)
        for number in [number for number, child in self.children.items() if child is connection]:
            del self.children[number]
            self._say_detached(number)

    def _ask(self, connection: Connection, request: Received, message: Join | Attach) -> None:
        """Pass a request on; `answered` gets the answer."""
        up = self._up
        if up is None:
            connection.fail(request, Unavailable(f"aggregator {self._number} has not found the ordering leader"))
        elif len(self._asked) >= ORDERING_REPLICAS_MAX:
            connection.fail(request, Overloaded(f"{len(self._asked)} requests wait for the ordering leader: try again"))
        else:
            correlation = up.next_correlation()
            self._asked[correlation] = connection, request
            self._count(message, 1)
            up.send(message, correlation=correlation)

    def _report(self, connection: Connection, received: Received, message: ReportIs) -> None:
        report = message.report
        if not self.streams.has_joined(connection, report.shard, report.replica):
            raise ProtocolError(f"{connection.name} reports as {report.shard}/{report.replica}, and has not joined so")
        self._take_report(report)

    def _reports_of_many(self, connection: Connection, received: Received, message: ReportsAre) -> None:
        for report in message.reports:
            if self.streams.has_joined(connection, report.shard, report.replica):  # else it was on its way
                self._take_report(report)

    def _take_report(self, report: Report) -> None:
        self._metrics.reports.inc()
        self._reports[report.shard, report.replica] = report
        self._plan_passing()

    def _sign_of_life(self, connection: Connection, received: Received, message: SignOfLife) -> None:
        for member in self.streams.replicas_of(connection):
            self._signs[member] = message.whole
            self._plan_passing()

    def _signs_of_many(self, connection: Connection, received: Received, message: SignsOfLife) -> None:
        for shard, replica, is_complete in message.signs:
            if self.streams.has_joined(connection, shard, replica):  # else it was on its way
                self._signs[shard, replica] = is_complete
                self._plan_passing()

    def _plan_passing(self) -> None:
        if self._flush is None:
            held_s = max(0.0, self._held_until_s - monotonic_s())
            self._flush = asyncio.get_running_loop().call_later(held_s, self._pass_on)

    def _pass_on(self) -> None:
        """Send up what this turn of the loop has brought, once what was sent before is on its way."""
        self._flush = None
        up = self._up
        if up is None:
            self._reports.clear()
            self._signs.clear()
        elif not up.is_writable:
            self._flush = asyncio.get_running_loop().call_later(ORDERER_RETRY_S, self._pass_on)
        else:
            if self._reports:
                self._pass_reports(up)
            signs, self._signs = [(*member, is_complete) for member, is_complete in self._signs.items()], {}
            for start in range(0, len(signs), REPORTS_TOGETHER_MAX):
                up.send(SignsOfLife(tuple(signs[start : start + REPORTS_TOGETHER_MAX])))

    def _pass_reports(self, up: Connection) -> None:
        reports, self._reports = list(self._reports.values()), {}
        for together in _fitting(reports):
            up.send(ReportsAre(together))
        self._metrics.passed.inc(len(reports))
        self._metrics.messages.inc()

    def _left_below(self, connection: Connection, received: Received, message: Left) -> None:
        if self.streams.has_joined(connection, message.shard, message.replica):
            self.streams.leave_one(connection, message.shard, message.replica)
            self._say_left(message.shard, message.replica)

    def _detach(self, connection: Connection, received: Received, message: Detach) -> None:
        if self.children.get(message.aggregator) is connection:
            del self.children[message.aggregator]
            self._say_detached(message.aggregator)

    def _say_left(self, shard: int, replica: int) -> None:
        """Say so unless it is here by now, or about to be: what is said then would be taken to be of that."""
        if not self.streams.has(shard, replica) and not self._joining[shard, replica]:
            self._say(Left(shard, replica))

    def _say_detached(self, aggregator: int) -> None:
        if aggregator not in self.children and not self._attaching[aggregator]:
            self._say(Detach(aggregator))

    def _count(self, message: Join | Attach, change: int) -> None:
        if isinstance(message, Join):
            key = message.shard, message.replica
            self._joining[key] += change
            if not self._joining[key]:
                del self._joining[key]
        else:
            self._attaching[message.aggregator] += change

    def _say(self, message: Message) -> None:
        if self._up is not None:
            self._up.send(message)

    # From above

    @property
    def up_name(self) -> str | None:
        """Where whoever is above is; None while there is nobody."""
        return None if self._up is None else self._up.name

    def attached(self, up: Connection) -> None:
        """There is somebody above from now on."""
        self._up = up

    def detached(self) -> None:
        """Whoever is below must join again."""
        self._up = None
        asked, self._asked = self._asked, {}
        self._joining.clear()
        self._attaching.clear()
        for connection, request in asked.values():
            connection.fail(request, Unavailable(f"aggregator {self._number} has lost the ordering leader"))
        children, self.children = self.children, {}
        self.streams.close()
        for connection in children.values():
            connection.close()

    def answered(self, received: Received) -> None:
        """Pass an answer back to whoever asked; pieces of it come before it."""
        if isinstance(received.message, JoinedLanes):
            if received.correlation in self._asked:
                replica, join = self._asked[received.correlation]
                replica.answer(join, received.message)
            return
        connection, request = self._asked.pop(received.correlation, (None, None))
        if connection is None or request is None:
            return
        asked, answer = request.message, received.message
        assert isinstance(asked, Join | Attach)
        self._count(asked, -1)
        if isinstance(asked, Join):
            if connection.is_open and isinstance(answer, Joined):
                self.streams.join(connection, asked.shard, asked.replica)
            else:
                self._say_left(asked.shard, asked.replica)
        elif connection.is_open and isinstance(answer, Attached):
            self.children[asked.aggregator] = connection
        else:
            self._say_detached(asked.aggregator)
        connection.answer(request, answer)

    def take_news(self, news: OrderNews) -> None:
        """Tell them to the replicas of their shards."""
        outcomes: list[Outcome] = [item.unpacked() if isinstance(item, CutPart) else item for item in news.items]
        self._metrics.cuts.inc(sum(isinstance(item, CutPart) for item in news.items))
        self.streams.take(outcomes)
        if self._telling is None:  # what comes in the same turn is told in one message
            self._telling = asyncio.get_running_loop().call_soon(self._tell)

    def _tell(self) -> None:
        """Tell what has come; reports then wait for as long as that took, so that cuts become fewer, and larger."""
        self._telling = None
        started_s = monotonic_s()
        self.streams.flush()
        now_s = monotonic_s()
        self._held_until_s = now_s + min(now_s - started_s, AGGREGATOR_HOLD_S_MAX)

    def tell_orderers(self, message: OrderersAre) -> None:
        """Everybody below must know where to look for a leader."""
        for connection in dict.fromkeys((*self.streams.connections(), *self.children.values())):
            connection.send(message)

    def left_above(self, message: Left) -> None:
        """A replica has joined elsewhere, or shall."""
        self.streams.dismiss(message.shard, message.replica, message.to)


def _fitting(reports: list[Report]) -> Iterator[tuple[Report, ...]]:
    """As few messages as are allowed: of so many reports each, and of so many lanes, which may be prepared parts."""
    together: list[Report] = []
    lanes = 0
    for report in reports:
        if together and (len(together) == REPORTS_TOGETHER_MAX or lanes + len(report.lengths) > REPORT_LANES_MAX):
            yield tuple(together)
            together, lanes = [], 0
        together.append(report)
        lanes += len(report.lengths)
    if together:
        yield tuple(together)
