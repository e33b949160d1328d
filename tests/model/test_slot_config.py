"""What a cluster's file says about slots; each mistake is named by its line."""

from pathlib import Path

import pytest
from tests.model.small_cluster import SMALL, write

from ithaca.model.config.cluster import load_cluster
from ithaca.model.config.slots import SlotSettings
from ithaca.model.config.text import dump_cluster
from ithaca.model.errors import ConfigError

BELFAST = SMALL + '[cluster]\nengine = "belfast"\n'


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("", SlotSettings("fixed", "wide")),
        ("[belfast]\n", SlotSettings("fixed", "wide")),
        ('[belfast]\nmode = "auto"\n', SlotSettings("auto", "wide")),
        ('[belfast]\nmode = "free"\nquotas = "rate"\n', SlotSettings("free", "rate")),
    ],
)
def test_what_is_written_is_read_again(tmp_path: Path, text: str, settings: SlotSettings) -> None:
    file = load_cluster(write(tmp_path, BELFAST + text))
    assert file.slots == settings
    assert load_cluster(write(tmp_path, dump_cluster(file))) == file


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('mode = "sometimes"', "mode is 'sometimes': use one of fixed, free, auto"),
        ("quotas = 4096", "quotas is 4096"),
        ('quota = "rate"', r"quota is not known \(did you mean quotas\?\)"),
    ],
)
def test_a_mistake_is_named_by_its_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=f"cluster.toml:10: {said}"):
        load_cluster(write(tmp_path, f"{BELFAST}[belfast]\n{text}\n"))


def test_another_engine_has_no_such_settings(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cluster.toml:7: \[belfast\] is for the engine belfast, and this .* scalog"):
        load_cluster(write(tmp_path, f'{SMALL}[belfast]\nmode = "free"\n'))
