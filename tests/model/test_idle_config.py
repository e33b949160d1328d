"""What a cluster's file says about names that nobody uses; each mistake is named by its line."""

from pathlib import Path

import pytest
from tests.model.small_cluster import SMALL, write

from ithaca.model.config.cluster import load_cluster
from ithaca.model.config.text import dump_cluster
from ithaca.model.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "idle"),
    [
        ("", (None, None)),
        ("[sessions]\n[writers]\n", (None, None)),
        ("[sessions]\nidle_s = 1\n", (1, None)),
        ("[sessions]\nidle_s = 3600\n[writers]\nidle_s = 60\n", (3600, 60)),
    ],
)
def test_what_is_written_is_read_again(tmp_path: Path, text: str, idle: tuple[int | None, int | None]) -> None:
    file = load_cluster(write(tmp_path, SMALL + text))
    assert (file.session_idle_s, file.writer_idle_s) == idle
    assert load_cluster(write(tmp_path, dump_cluster(file))) == file


@pytest.mark.parametrize("table", ["sessions", "writers"])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("idle_s = 0", "idle_s is 0: use a whole number from 1 to"),
        ("idle_s = 1.5", "idle_s is 1.5"),
        ('idle_s = "a month"', "idle_s is 'a month'"),
        ("idle = 60", r"idle is not known \(did you mean idle_s\?\)"),
    ],
)
def test_a_mistake_is_named_by_its_line(tmp_path: Path, table: str, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=f"cluster.toml:8: {said}"):
        load_cluster(write(tmp_path, f"{SMALL}[{table}]\n{text}\n"))
