"""Options: what is wrong with them is said before anything is connected."""

from datetime import UTC, datetime

import pytest

from ithaca.model.errors import InvalidInput
from ithaca.model.limits import BATCH_BYTES_MAX
from ithaca.model.records import KeyFilter
from ithaca.model.security.tls import TLS
from ithaca.spark.limits import SPARK_BATCH_BYTES, SPARK_PART_TTL_S
from ithaca.spark.options import Options, Target, read_options, write_options


def given(**options: str) -> Options:
    return Options({"bootstrap": "127.0.0.1:7600", **options})


def test_a_table_reads_everything_by_default() -> None:
    options = read_options(given(), "table")
    assert (options.start, options.stop, options.split, options.fail_on_data_loss) == (
        "earliest",
        "latest",
        "position",
        True,
    )


def test_files_of_this_machine_are_read_unless_told_otherwise() -> None:
    assert read_options(given(), "stream").target.local_reads
    assert not read_options(given(localReads="false"), "table").target.local_reads


def test_files_say_whom_to_trust_and_who_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_options(given(), "table").target.tls is None
    said = given(tokenFile="spark.token")
    assert read_options(said, "stream").target.token_file == "spark.token"
    said = given(tlsAuthority="ca.pem", tlsCertificate="spark.pem", tlsKey="spark.key")
    assert write_options(said).target.tls == TLS("ca.pem", "spark.pem", "spark.key")
    with pytest.raises(InvalidInput, match="option tlsAuthority is missing"):
        read_options(given(tlsKey="spark.key"), "stream")
    monkeypatch.setenv("ITHACA_TLS_AUTHORITY", "driver.pem")
    assert read_options(given(), "stream").target.tls == TLS("driver.pem")


def test_a_stream_begins_at_the_tail_by_default() -> None:
    assert read_options(given(), "stream").start == "latest"


def test_names_are_in_any_case() -> None:
    options = read_options(given(STARTINGOFFSETS="7", keyfilter="prefix:user-", MinPartitions="3"), "table")
    assert (options.start, options.key_filter, options.min_partitions) == (7, KeyFilter.prefix(b"user-"), 3)


def test_times_are_milliseconds_or_iso() -> None:
    wanted = datetime(2026, 1, 31, 11, tzinfo=UTC)
    for text in ("2026-01-31T12:00:00+01:00", str(int(wanted.timestamp() * 1000))):
        assert read_options(given(startingTimestamp=text), "table").start == wanted


def test_as_of_is_a_position_or_a_time() -> None:
    assert read_options(given(asOf="12"), "table").stop == 12
    assert read_options(given(asOf="2026-01-31T12:00:00Z"), "table").stop == datetime(2026, 1, 31, 12, tzinfo=UTC)


def test_a_path_is_an_embedded_log() -> None:
    assert read_options(Options({"path": "./events"}), "table").target == Target(path="./events")


@pytest.mark.parametrize(
    ("where", "options", "words"),
    [
        ("table", {"ofset": "1"}, "no option ofset"),
        ("table", {"maxOffsetsPerTrigger": "1"}, "no option maxOffsetsPerTrigger of a table: there are asOf,"),
        ("stream", {"endingOffsets": "1"}, "no option endingOffsets of a stream"),
        ("table", {"startingOffsets": "0"}, "startingOffsets is 0: use a position from 1 on"),
        ("table", {"startingOffsets": "x"}, "startingOffsets is 'x': use a position"),
        ("table", {"startingOffsets": "9", "endingOffsets": "8"}, "startingOffsets is 9, which is after the end, 8"),
        ("table", {"startingOffsets": "9", "startingTimestamp": "8"}, "exclude each other"),
        ("table", {"asOf": "9", "endingOffsets": "8"}, "asOf and endingOffsets exclude each other"),
        ("table", {"startingTimestamp": "2026-01-31T12:00:00"}, "a time with its offset"),
        ("table", {"minPartitions": "0"}, "minPartitions is 0: use a number from 1 on"),
        ("table", {"maxRecordsPerPartition": "many"}, "maxRecordsPerPartition is 'many'"),
        ("table", {"split": "key"}, "split is 'key': use position or shard"),
        ("table", {"failOnDataLoss": "maybe"}, "use true or false"),
        ("stream", {"localReads": "never"}, "localReads is 'never': use true or false"),
        ("table", {"keyFilter": "suffix:x"}, "use equals:KEY, prefix:KEY, part:INDEX:COUNT or hash:LOW:HIGH"),
        ("stream", {"maxBytesPerTrigger": "-1"}, "maxBytesPerTrigger is -1"),
        ("table", {"path": "./events"}, "bootstrap and path exclude each other"),
        ("table", {"timeout": "0"}, "timeout is 0.0"),
        ("table", {"startingOfsets": "1"}, r"no option startingofsets of a table \(did you mean startingOffsets\?\)"),
    ],
)
def test_wrong_options_are_named(where: str, options: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        read_options(given(**options), "table" if where == "table" else "stream")


def test_a_log_must_be_named() -> None:
    with pytest.raises(InvalidInput, match="option bootstrap is missing"):
        read_options(Options({}), "table")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"path": "./events"}, "an embedded log has one writer"),
        (
            {"bootstrap": "127.0.0.1:7600", "delivery": "atMostOnce"},
            "delivery is 'atMostOnce': use exactlyOnce or atLeastOnce",
        ),
        ({"bootstrap": "127.0.0.1:7600", "compression": "gzip"}, "use none or lz4 or zstd"),
        ({"bootstrap": "127.0.0.1:7600", "startingOffsets": "1"}, "no option startingOffsets of a sink"),
    ],
)
def test_wrong_options_of_a_sink_are_named(options: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        write_options(Options(options))


def test_what_spark_adds_to_a_stream_is_let_pass() -> None:
    assert write_options(given(checkpointLocation="/somewhere")).delivery == "exactlyOnce"


def test_a_sink_is_what_its_options_say() -> None:
    plain = write_options(given())
    assert (plain.delivery, plain.writer_id, plain.batch_id, plain.compression) == ("exactlyOnce", None, None, "none")
    assert plain.batch_bytes == SPARK_BATCH_BYTES
    chosen = write_options(
        given(delivery="atleastonce", writerId="w", batchId="0", compression="LZ4", batchBytes="1", timeout="0.5")
    )
    assert (chosen.delivery, chosen.writer_id, chosen.batch_id, chosen.compression) == ("atLeastOnce", "w", 0, "lz4")
    assert (chosen.batch_bytes, chosen.target.timeout_s) == (1, 0.5)
    assert write_options(given(compression="zstd", batchBytes=str(1 << 40))).batch_bytes == BATCH_BYTES_MAX // 2
    assert write_options(given(compression="zstd")).compression == "zstd"
    assert (plain.part_ttl_s, write_options(given(partTtl="60")).part_ttl_s) == (SPARK_PART_TTL_S, 60)


@pytest.mark.parametrize(
    ("options", "is_stream", "words"),
    [
        ({"writerId": "w", "batchId": "1"}, True, "batchId is for tables"),
        ({"writerId": "w", "batchId": "-1"}, False, "batchId is -1: use a number from 0 on"),
        ({"batchId": "1"}, False, "name the writer with writerId"),
        ({"partTtl": "0.5"}, False, "partTtl is 0.5: use 1 to 604800 seconds"),
        ({"partTtl": "nan"}, False, "partTtl is 'nan'"),
        ({"partTtl": "soon"}, True, "partTtl is 'soon': use a number of seconds"),
    ],
)
def test_a_batch_that_cannot_be_is_refused(options: dict[str, str], is_stream: bool, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        write_options(given(**options), is_stream=is_stream)


def test_a_stream_may_name_its_writer() -> None:
    assert write_options(given(writerId="w"), is_stream=True).writer_id == "w"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hash:5:9", KeyFilter.hash_range(5, 9)),
        ("part:1:4", KeyFilter.part(1, 4)),
        ("equals:a:b", KeyFilter.equals(b"a:b")),
        ("prefix:0xff00", KeyFilter.prefix(b"\xff\0")),
    ],
)
def test_a_key_filter_is_one_of_three(text: str, expected: KeyFilter) -> None:
    assert read_options(given(keyFilter=text), "table").key_filter == expected


def test_a_range_may_begin_where_it_ends() -> None:
    options = read_options(given(startingOffsets="9", endingOffsets="9"), "table")
    assert (options.start, options.stop, options.is_as_of) == (9, 9, False)
    options = read_options(given(startingTimestamp="9", endingTimestamp="9"), "table")
    assert options.start == options.stop
    with pytest.raises(InvalidInput, match=r"startingTimestamp is .* which is after the end"):
        read_options(given(startingTimestamp="9", endingTimestamp="8"), "table")
    assert read_options(given(asOf="1"), "table").is_as_of


def test_limits_of_a_trigger_and_of_partitions() -> None:
    stream = read_options(given(maxOffsetsPerTrigger="5", maxBytesPerTrigger="6"), "stream")
    assert (stream.trigger_records, stream.trigger_bytes, stream.push_filters) == (5, 6, False)
    table = read_options(given(pushFilters="true", split="shard", maxRecordsPerPartition="1"), "table")
    assert (table.push_filters, table.split, table.max_records, table.min_partitions) == (True, "shard", 1, None)
    assert (table.trigger_records, table.trigger_bytes) == (None, None)
    assert read_options(given(), "table").target == Target(bootstrap="127.0.0.1:7600", timeout_s=30.0)
