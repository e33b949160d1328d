"""What a cluster's file says about how much to keep; each mistake is named by its line."""

from datetime import timedelta
from pathlib import Path

import pytest
from tests.model.small_cluster import SMALL, write

from ithaca.model.config.cluster import load_cluster
from ithaca.model.config.text import dump_cluster
from ithaca.model.errors import ConfigError
from ithaca.model.records import Retention


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("", None),
        ("[retention]\n", None),
        ("[retention]\nage_s = 3600\n", Retention(age=timedelta(hours=1))),
        ("[retention]\nshard_bytes = 10_000_000\n", Retention(bytes=10_000_000)),
        ("[retention]\nage_s = 1\nshard_bytes = 10_000_000\n", Retention(timedelta(seconds=1), 10_000_000)),
        ("[retention]\nage_s = 60\nkeep_for_consumers = true\n", Retention(60, keep_for_consumers=True)),
        (
            '[retention]\nage_s = 60\nkeep_for_consumers = ["a \\"b\\"", "c"]\nkeep_for_consumers_s = "2h"\n',
            Retention(60, keep_for_consumers=['a "b"', "c"], keep_for="2h"),
        ),
    ],
)
def test_what_is_written_is_read_again(tmp_path: Path, text: str, kept: Retention | None) -> None:
    file = load_cluster(write(tmp_path, SMALL + text))
    assert file.retention == kept
    assert load_cluster(write(tmp_path, dump_cluster(file))) == file


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("age_s = 0", "age_s is 0: use a whole number from 1 to"),
        ("age_s = 1.5", "age_s is 1.5"),
        ('age_s = "a week"', "age_s is 'a week'"),
        ("shard_bytes = 100", "shard_bytes is 100: use a whole number from"),
        ("age = 60", r"age is not known \(did you mean age_s\?\)"),
        ("bytes = 1000000", "bytes is not known"),
        ("keep_for_consumers = 7", "keep_for_consumers is 7: use true, false, or a list of names"),
        ("keep_for_consumers_s = 0", "keep_for_consumers_s is 0"),
    ],
)
def test_a_mistake_is_named_by_its_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=f"cluster.toml:8: {said}"):
        load_cluster(write(tmp_path, f"{SMALL}[retention]\n{text}\n"))
