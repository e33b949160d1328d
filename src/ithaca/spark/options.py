"""The options of the data source: which there are, what they may be, and what is said of a wrong one.

Everything that can be seen from the options alone is found here, in the driver, before anything is connected.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal, TypeVar

from ithaca.model.config.toml_lines import did_you_mean
from ithaca.model.consumers import check_consumer_name
from ithaca.model.errors import InvalidInput
from ithaca.model.limits import BATCH_BYTES_MAX, PART_TTL_S_MAX, PART_TTL_S_MIN
from ithaca.model.paths import local_path
from ithaca.model.records import KeyFilter
from ithaca.model.security.tls import TLS, tls_from_environment
from ithaca.model.security.token import TOKEN_FILE, read_token
from ithaca.model.units import parse_duration
from ithaca.spark.limits import SPARK_BATCH_BYTES, SPARK_PART_TTL_S, SPARK_PARTITION_BYTES, SPARK_PARTITION_RECORDS

Where = Literal["table", "stream", "sink"]
Edge = int | Literal["earliest", "latest"] | datetime
"""A position, an end of the log, or a time by the order's clock."""
Split = Literal["position", "shard"]
Delivery = Literal["atLeastOnce", "exactlyOnce"]
Parsed = TypeVar("Parsed")

TARGET: Final = ("bootstrap", "path", "timeout", "tlsAuthority", "tlsCertificate", "tlsKey", "tokenFile")
SOURCE: Final = (
    "startingOffsets",
    "startingTimestamp",
    "minPartitions",
    "maxRecordsPerPartition",
    "maxBytesPerPartition",
    "split",
    "failOnDataLoss",
    "keyFilter",
    "localReads",
)
TABLE: Final = (*TARGET, *SOURCE, "endingOffsets", "endingTimestamp", "asOf", "pushFilters")
STREAM: Final = (*TARGET, *SOURCE, "maxOffsetsPerTrigger", "maxBytesPerTrigger", "consumer")
SINK: Final = (*TARGET, "delivery", "writerId", "batchId", "compression", "batchBytes", "partTtl")
NAMES: Final[dict[Where, tuple[str, ...]]] = {"table": TABLE, "stream": STREAM, "sink": SINK}
DELIVERIES: Final = ("exactlyOnce", "atLeastOnce")
SPARKS_OWN: Final = frozenset({"checkpointlocation", "queryname"})
"""What Spark passes on from a streaming query's own settings."""

_TRUTH: Final = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Target:
    """Where the log is: the orderers of a cluster, or the directory of an embedded log."""

    bootstrap: str = ""
    path: str = ""
    timeout_s: float = 30.0
    local_reads: bool = True
    """Whether tasks open the files of replicas on their own machine."""
    tls: TLS | None = None
    """What protects connections: files that are on the driver and on all executors."""
    token_file: str = ""
    """Where the user's token is, on the driver and on all executors: the token itself is in no plan."""

    @property
    def token(self) -> str | None:
        """The user's token, read where it is needed; None where nothing says where it is."""
        return read_token(self.token_file) if self.token_file else None

    def __str__(self) -> str:
        return self.bootstrap or self.path


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What a table or a stream is asked for."""

    target: Target
    start: Edge
    stop: Edge = "latest"
    is_as_of: bool = False
    min_partitions: int | None = None
    max_records: int = SPARK_PARTITION_RECORDS
    max_bytes: int | None = SPARK_PARTITION_BYTES
    """Of keys and values, about; None where records alone are counted."""
    split: Split = "position"
    fail_on_data_loss: bool = True
    key_filter: KeyFilter | None = None
    push_filters: bool = False
    trigger_records: int | None = None
    trigger_bytes: int | None = None
    consumer: str | None = None
    """The named consumer that shows how far a stream is."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How rows are appended."""

    target: Target
    delivery: Delivery
    writer_id: str | None
    """Under which name batches are published; by default the query's own, or a new one for each job."""
    batch_id: int | None
    """The number of a batch that a job writes: the same number again writes nothing."""
    compression: Literal["none", "lz4", "zstd"]
    batch_bytes: int
    part_ttl_s: float = SPARK_PART_TTL_S
    """How long what a task wrote waits for the commit."""


class Options:
    """Options as Spark passes them, whose names are in any case."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {name.lower(): text for name, text in given.items()}

    def refuse_unknown(self, where: Where | None = None) -> None:
        """`InvalidInput` that names an option which is not one of these; without `where`, one that is none at all."""
        known = NAMES[where] if where is not None else tuple(dict.fromkeys((*TABLE, *STREAM, *SINK)))
        names = {name.lower() for name in known} | SPARKS_OWN
        everywhere = {name.lower(): name for group in NAMES.values() for name in group}
        for name in self._given:
            if name not in names:
                what = {None: "", "table": " of a table", "stream": " of a stream", "sink": " of a sink"}[where]
                meant = did_you_mean(name, known)
                raise InvalidInput(
                    f"there is no option {everywhere.get(name, name)}{what}{meant}: there are "
                    f"{', '.join(sorted(known))}"
                )

    def text(self, name: str) -> str | None:
        return self._given.get(name.lower())

    def parsed(self, name: str, parse: Callable[[str], Parsed], wanted: str) -> Parsed | None:
        """The option as `parse` makes it of its text; None when it was not given."""
        text = self.text(name)
        if text is None:
            return None
        try:
            return parse(text.strip())
        except (ValueError, KeyError, OverflowError):
            raise InvalidInput(f"{name} is {text!r}: use {wanted}") from None

    def count(self, name: str) -> int | None:
        found = self.parsed(name, int, "a number from 1 on")
        if found is not None and found < 1:
            raise InvalidInput(f"{name} is {found}: use a number from 1 on")
        return found

    def truth(self, name: str, default: bool) -> bool:
        found = self.parsed(name, lambda text: _TRUTH[text.lower()], "true or false")
        return default if found is None else found

    def choice(self, name: str, choices: Iterable[str]) -> str | None:
        by_name = {each.lower(): each for each in choices}
        return self.parsed(name, lambda text: by_name[text.lower()], " or ".join(by_name.values()))

    def one_of(self, *names: str) -> str | None:
        """Which of these was given; `InvalidInput` when several were."""
        given = [name for name in names if self.text(name) is not None]
        if len(given) > 1:
            raise InvalidInput(f"{' and '.join(given)} exclude each other: give one of them")
        return given[0] if given else None


def target_of(options: Options) -> Target:
    """Where the log is."""
    which = options.one_of("bootstrap", "path")
    if which is None or not (options.text(which) or "").strip():
        raise InvalidInput(
            'option bootstrap is missing: name an orderer of the cluster, such as "127.0.0.1:7600", or give the path '
            "of an embedded log"
        )
    timeout_s = options.parsed("timeout", parse_duration, "a positive number of seconds, or text such as 500ms")
    if timeout_s is not None and not timeout_s > 0:
        raise InvalidInput(f"timeout is {timeout_s}: use a positive number of seconds")
    text = (options.text(which) or "").strip()
    return Target(
        **{which: local_path(text) if which == "path" else text},
        timeout_s=30.0 if timeout_s is None else timeout_s,
        local_reads=options.truth("localReads", True),
        tls=_tls_of(options) if which == "bootstrap" else None,
        token_file=(options.text("tokenFile") or os.environ.get(TOKEN_FILE) or "") if which == "bootstrap" else "",
    )


def _tls_of(options: Options) -> TLS | None:
    """What the options say, else what the driver's environment does."""
    authority, certificate, key = (options.text(name) for name in ("tlsAuthority", "tlsCertificate", "tlsKey"))
    if authority is None and (certificate is not None or key is not None):
        raise InvalidInput("option tlsAuthority is missing: it names the file that says whom to trust")
    return tls_from_environment() if authority is None else TLS(authority, certificate, key)


def parse_time(text: str) -> datetime:
    """Milliseconds since 1970, as Spark's Kafka source has them, or ISO 8601 with an offset.

    >>> parse_time("0").isoformat(), parse_time("2026-01-31T12:00:00+01:00").isoformat()
    ('1970-01-01T00:00:00+00:00', '2026-01-31T11:00:00+00:00')
    """
    if text.lstrip("-").isdecimal():
        return datetime.fromtimestamp(int(text) / 1000, UTC)
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError("no offset")
    return found.astimezone(UTC)


def parse_key_filter(text: str) -> KeyFilter:
    """`equals:KEY`, `prefix:KEY`, `part:INDEX:COUNT` or `hash:LOW:HIGH`; a key is text, or bytes in hexadecimal after
    `0x`.

    >>> parse_key_filter("prefix:user-"), parse_key_filter("equals:0x00ff").key
    (KeyFilter(kind='prefix', key=b'user-', low=0, high=0), b'\\x00\\xff')
    """
    kind, _, rest = text.partition(":")
    if kind == "hash":
        low, _, high = rest.partition(":")
        return KeyFilter.hash_range(int(low), int(high))
    if kind == "part":
        index, _, count = rest.partition(":")
        return KeyFilter.part(int(index), int(count))
    key = bytes.fromhex(rest[2:]) if rest.startswith("0x") else rest.encode()
    return {"equals": KeyFilter.equals, "prefix": KeyFilter.prefix}[kind](key)


_A_TIME: Final = "milliseconds since 1970, or a time with its offset, such as 2026-01-31T12:00:00Z"
_A_POSITION: Final = "a position from 1 on"
_A_FILTER: Final = "equals:KEY, prefix:KEY, part:INDEX:COUNT or hash:LOW:HIGH"


def _edge(options: Options, side: Literal["starting", "ending"], default: Edge) -> Edge:
    which = options.one_of(f"{side}Offsets", f"{side}Timestamp")
    if which is None:
        return default
    if which == f"{side}Timestamp":
        time = options.parsed(which, parse_time, _A_TIME)
        assert time is not None
        return time
    text = (options.text(which) or "").strip().lower()
    if text == "earliest":
        return "earliest"
    if text == "latest":
        return "latest"
    position = options.parsed(which, int, f"{_A_POSITION}, earliest or latest")
    assert position is not None
    if position < 1:
        raise InvalidInput(f"{which} is {position}: use {_A_POSITION}, earliest or latest")
    return position


def _as_of(options: Options) -> Edge:
    text = (options.text("asOf") or "").strip()
    if text.isdecimal() and int(text) > 0:
        return int(text)
    time = options.parsed("asOf", parse_time, f"{_A_POSITION}, which is then the tail, or a time with its offset")
    assert time is not None
    return time


def read_options(options: Options, where: Literal["table", "stream"]) -> ReadOptions:
    """What a reader is asked for, checked."""
    options.refuse_unknown(where)
    is_table = where == "table"
    stop: Edge = "latest"
    is_as_of = False
    if is_table:
        is_as_of = options.one_of("asOf", "endingOffsets", "endingTimestamp") == "asOf"
        stop = _as_of(options) if is_as_of else _edge(options, "ending", "latest")
    start = _edge(options, "starting", "earliest" if is_table else "latest")
    if isinstance(start, int) and isinstance(stop, int) and start > stop:
        raise InvalidInput(f"startingOffsets is {start}, which is after the end, {stop}")
    if isinstance(start, datetime) and isinstance(stop, datetime) and start > stop:
        raise InvalidInput(f"startingTimestamp is {start.isoformat()}, which is after the end, {stop.isoformat()}")
    max_records = options.count("maxRecordsPerPartition")
    return ReadOptions(
        target=target_of(options),
        start=start,
        stop=stop,
        is_as_of=is_as_of,
        min_partitions=options.count("minPartitions"),
        max_records=max_records or SPARK_PARTITION_RECORDS,
        max_bytes=options.count("maxBytesPerPartition") or (None if max_records else SPARK_PARTITION_BYTES),
        split="shard" if options.choice("split", ("position", "shard")) == "shard" else "position",
        fail_on_data_loss=options.truth("failOnDataLoss", True),
        key_filter=options.parsed("keyFilter", parse_key_filter, _A_FILTER),
        push_filters=is_table and options.truth("pushFilters", False),
        trigger_records=None if is_table else options.count("maxOffsetsPerTrigger"),
        trigger_bytes=None if is_table else options.count("maxBytesPerTrigger"),
        consumer=None if is_table else _consumer(options),
    )


def _consumer(options: Options) -> str | None:
    name = options.text("consumer")
    if name is not None:
        check_consumer_name(name)
        if options.text("path") is not None:
            raise InvalidInput(
                f"consumer is {name!r}, and a directory is opened to be read only: a cluster shows how far a query is"
            )
    return name


def write_options(options: Options, *, is_stream: bool = False) -> WriteOptions:
    """What a sink is asked for, checked."""
    options.refuse_unknown("sink")
    target = target_of(options)
    if target.path:
        raise InvalidInput(
            f"path is {target.path}: an embedded log has one writer, and Spark has many tasks. Write to a cluster, "
            "and name it with bootstrap"
        )
    compression = options.choice("compression", ("none", "lz4", "zstd"))
    writer_id, batch_id = options.text("writerId"), options.parsed("batchId", int, "a number from 0 on")
    if batch_id is not None and is_stream:
        raise InvalidInput("batchId is for tables: a stream numbers its batches itself")
    if batch_id is not None and batch_id < 0:
        raise InvalidInput(f"batchId is {batch_id}: use a number from 0 on")
    if batch_id is not None and writer_id is None:
        raise InvalidInput("batchId says which batch of a writer this is: name the writer with writerId")
    part_ttl_s = options.parsed("partTtl", parse_duration, "a number of seconds, or text such as 2h")
    if part_ttl_s is not None and not PART_TTL_S_MIN <= part_ttl_s <= PART_TTL_S_MAX:
        raise InvalidInput(f"partTtl is {part_ttl_s:g}: use {PART_TTL_S_MIN:g} to {PART_TTL_S_MAX:g} seconds")
    return WriteOptions(
        target=target,
        delivery="atLeastOnce" if options.choice("delivery", DELIVERIES) == "atLeastOnce" else "exactlyOnce",
        writer_id=writer_id,
        batch_id=batch_id,
        compression="lz4" if compression == "lz4" else "zstd" if compression == "zstd" else "none",
        batch_bytes=min(options.count("batchBytes") or SPARK_BATCH_BYTES, BATCH_BYTES_MAX // 2),
        part_ttl_s=SPARK_PART_TTL_S if part_ttl_s is None else part_ttl_s,
    )
