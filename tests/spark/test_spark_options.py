"""Options: what is wrong with them is said before anything is connected."""

from datetime import UTC, datetime

import pytest

from ithaca.model.errors import InvalidInput
from ithaca.model.records import KeyFilter
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
        ("table", {"keyFilter": "suffix:x"}, "use equals:KEY, prefix:KEY or hash:LOW:HIGH"),
        ("stream", {"maxBytesPerTrigger": "-1"}, "maxBytesPerTrigger is -1"),
        ("table", {"path": "./events"}, "bootstrap and path exclude each other"),
        ("table", {"timeout": "0"}, "timeout is 0.0"),
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
