"""Records before their places are final, as a stream: `spark.readStream.format("ithaca-speculation")`.

A row is an event of `log.speculate`. `number` rises by one from event to event; `position` is a record's, or the one
up to which all is final, or behind which all is void:

```
number  event      attempt  position  shard  timestamp  key  value
1       delivered  0        17        0      …          …    …
2       confirmed           17
3       failed              17
```

So `foreachBatch` may compute at once, and must commit what it wrote for `delivered` rows only once a `confirmed` row
has come, and take it back at a `failed` one. What was delivered and not confirmed is void after a restart: the stream
then begins with `failed`. A batch that Spark repeats has the confirmed records alone, which never change.
"""

from collections.abc import Iterator, MutableMapping
from datetime import UTC, datetime
from typing import Any, Final

from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from ithaca.model.errors import InvalidInput
from ithaca.model.interface import ClusterLog, Speculation
from ithaca.model.speculation import Confirmed, Delivered, Failed, SpeculativeEvent
from ithaca.spark.options import Options, ReadOptions, read_options
from ithaca.spark.source import SCHEMA as RECORD
from ithaca.spark.target import open_log, position_of

NAME: Final = "ithaca-speculation"
SCHEMA: Final = StructType(
    [
        StructField("number", LongType()),
        StructField("event", StringType()),
        StructField("attempt", IntegerType()),
        *RECORD,
    ]
)
LISTEN_S: Final = 0.2
"""How long to wait for events before a batch without any is reported."""
TRIGGER_EVENTS_MAX: Final = 10_000
"""Events of one batch; the rest goes into the next one."""
Row = tuple[Any, ...]
Offset = dict[str, int]


class SpeculativeDataSource(DataSource):
    """A stream of a cluster that speculates; options are those of a stream: bootstrap, startingOffsets, keyFilter."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        Options(options).refuse_unknown("stream")

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return SCHEMA

    def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:  # noqa: N802 (Spark's name)
        return SpeculativeStreamReader(read_options(Options(self.options), "stream"))


class SpeculativeStreamReader(SimpleDataSourceStreamReader):
    """Keeps one speculation in the driver. An offset is how many events there were, and up to where all is final."""

    def __init__(self, options: ReadOptions) -> None:
        if options.target.path:
            raise InvalidInput(f"the log in {options.target.path} does not speculate: a cluster does; set bootstrap")
        self._options = options
        self._handle: ClusterLog | None = None
        self._speculation: Speculation | None = None
        self._number = 0
        """Of the last event that was read."""
        self._left: list[SpeculativeEvent] = []

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_handle": None, "_speculation": None, "_left": []}

    @property
    def _log(self) -> ClusterLog:
        if self._handle is None:
            log = open_log(self._options.target)
            assert isinstance(log, ClusterLog)
            self._handle = log
        return self._handle

    def initialOffset(self) -> Offset:  # noqa: N802 (Spark's name)
        return {"number": 0, "confirmed": position_of(self._log, self._options.start) - 1}

    def read(self, start: Offset) -> tuple[Iterator[Row], Offset]:
        """Events since the last call; after a restart, first that what was not confirmed is void."""
        number, confirmed = start["number"], start["confirmed"]
        rows: list[Row] = []
        if self._speculation is None or number != self._number:
            self._begin(confirmed)
            if number:
                number += 1
                rows.append(_row(number, Failed(confirmed)))
        assert self._speculation is not None
        events = self._left or self._speculation.take(LISTEN_S)
        self._left = events[TRIGGER_EVENTS_MAX:]
        for event in events[:TRIGGER_EVENTS_MAX]:
            number += 1
            rows.append(_row(number, event))
            if isinstance(event, Confirmed):
                confirmed = event.up_to
        self._number = number
        return iter(rows), {"number": number, "confirmed": confirmed}

    def readBetweenOffsets(self, start: Offset, end: Offset) -> Iterator[Row]:  # noqa: N802 (Spark's name)
        """A batch that is repeated: what was confirmed in it."""
        events: list[SpeculativeEvent] = [Failed(start["confirmed"])]
        if end["confirmed"] > start["confirmed"]:
            first, stop = start["confirmed"] + 1, end["confirmed"] + 1
            with self._log.read_range(first, stop, where=self._options.key_filter) as records:
                events += [Delivered(record, 0) for record in records]
            events.append(Confirmed(end["confirmed"]))
        return iter([_row(number, event) for number, event in enumerate(events, start["number"] + 1)])

    def stop(self) -> None:
        """Let go of the log. Spark has no such call for a simple reader: there the driver's end does it."""
        if self._speculation is not None:
            self._speculation.close()
        if self._handle is not None:
            self._handle.close()
        self._speculation = self._handle = None

    def _begin(self, confirmed: int) -> None:
        if self._speculation is not None:
            self._speculation.close()
        self._left = []
        self._speculation = self._log.speculate(confirmed + 1, where=self._options.key_filter)


def _row(number: int, event: SpeculativeEvent) -> Row:
    match event:
        case Delivered(record, attempt):
            at = datetime.fromtimestamp(record.timestamp_us / 1e6, UTC)
            return number, "delivered", attempt, record.position, record.shard, at, record.key, record.value
        case Confirmed(up_to):
            return number, "confirmed", None, up_to, None, None, None, None
        case Failed(after):
            return number, "failed", None, after, None, None, None, None
