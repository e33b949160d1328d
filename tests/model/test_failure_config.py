"""What a cluster's file says about failures, spares and servers that are gone; each mistake is named by its line."""

from pathlib import Path

import pytest
from tests.model.small_cluster import SMALL, write

from ithaca.model.config.cluster import load_cluster
from ithaca.model.config.failures import NO_ACTION, FailurePolicy
from ithaca.model.config.text import dump_cluster
from ithaca.model.errors import ConfigError
from ithaca.model.view import Address

AGGREGATOR = '[[aggregator]]\naggregator = 1\naddress = "127.0.0.1:7606"\n'
SPARE = '[[spare]]\naddress = "127.0.0.1:7605"\n'


def test_a_file_that_says_nothing_asks_for_nothing(tmp_path: Path) -> None:
    file = load_cluster(write(tmp_path, SMALL))
    assert (file.failures, file.spares, file.removed) == (NO_ACTION, (), ())
    assert file.failures.action == "none"


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    text = (
        f'{SMALL}[failures]\nanswer = "replace"\ndetection_ms = 900\n{SPARE}[[removed]]\naddress = "127.0.0.1:7603"\n'
    )
    file = load_cluster(write(tmp_path, text))
    assert file.failures == FailurePolicy("replace", 900)
    assert file.spares == (Address("127.0.0.1", 7605),)
    assert file.removed == (Address("127.0.0.1", 7603),)
    assert load_cluster(write(tmp_path, dump_cluster(file))) == file


def test_the_former_name_is_read_and_named_where_it_is_wrong(tmp_path: Path) -> None:
    old = load_cluster(write(tmp_path, f'{SMALL}[failures]\nanswer = "replace"\n{SPARE}'))
    assert old == load_cluster(write(tmp_path, f'{SMALL}[failures]\naction = "replace"\n{SPARE}'))
    with pytest.raises(ConfigError, match=r"toml:8: .*there is no spare"):
        load_cluster(write(tmp_path, f'{SMALL}[failures]\nanswer = "replace"\n'))


def test_aggregators_and_spares_are_written_and_read_together(tmp_path: Path) -> None:
    failures = '[failures]\naction = "replace"\ndetection_ms = 15000\n'
    file = load_cluster(write(tmp_path, SMALL + failures + SPARE + AGGREGATOR))
    assert file.addresses()[-2:] == [Address("127.0.0.1", 7606), Address("127.0.0.1", 7605)]
    assert load_cluster(write(tmp_path, dump_cluster(file))) == file


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ('[failures]\naction = "retry"\n', 8, "action is 'retry'"),
        ("[failures]\ndetection_ms = 5\n", 8, "detection_ms is 5"),
        ('[failures]\nactions = "none"\n', 8, "did you mean action"),
        ("failures = 7\n", 1, "failures is 7"),
        ('[failures]\naction = "mask"\n', 8, "shard 0 has no masking"),
        ('[failures]\naction = "replace"\n', 8, "there is no spare"),
        (f'[failures]\naction = "finalize-and-add"\n{SPARE}', 8, "there are 1 spares for the 2 replicas of shard 0"),
        (f'[failures]\naction = "replace"\n{SPARE}{AGGREGATOR}', 8, "detection_ms is 3000, and there are aggregators"),
        (f'[failures]\naction = "replace"\ndetection_ms = 14999\n{SPARE}{AGGREGATOR}', 9, "use at least 15000"),
        (f'{AGGREGATOR}[[removed]]\naddress = "127.0.0.1:7606"\n', 11, "not the address of a replica or of a spare"),
        ('[[spare]]\naddress = "127.0.0.1:7603"\n', 8, "the address of replica 0 of shard 0, too"),
        ("[[spare]]\n", 7, "address is missing in [[spare]]"),
        ('[[removed]]\naddress = "127.0.0.1:7600"\n', 8, "not the address of a replica or of a spare"),
        ('[[removed]]\naddress = "nowhere"\n', 8, "is not an address"),
    ],
)
def test_each_mistake_is_named_by_its_line(tmp_path: Path, text: str, line: int, said: str) -> None:
    whole = text + SMALL if text.startswith("failures =") else SMALL + text
    with pytest.raises(ConfigError) as raised:
        load_cluster(write(tmp_path, whole))
    assert said in str(raised.value)
    assert raised.value.line == line
