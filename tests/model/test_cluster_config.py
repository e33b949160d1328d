"""Cluster files: what they say, and that each mistake is named by its line."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.model.small_cluster import SMALL, write

from ithaca.model.addresses import is_loopback, parse_address
from ithaca.model.config.cluster import (
    AggregatorPlace,
    ClusterFile,
    OrdererPlace,
    ReplicaPlace,
    ShardPlace,
    check_founders,
    load_cluster,
)
from ithaca.model.config.text import dump_cluster
from ithaca.model.errors import ConfigError, InvalidInput
from ithaca.model.limits import SEGMENT_BYTES_MAX
from ithaca.model.view import Address


def at(port: int) -> Address:
    return Address("127.0.0.1", port)


FULL = ClusterFile(
    name='the "big" one, été',
    durability="os",
    order_interval_us=250,
    segment_bytes=1 << 20,
    orderers=(OrdererPlace(1, at(1)), OrdererPlace(2, Address("::1", 2)), OrdererPlace(5, Address("one.example", 3))),
    shards=(
        ShardPlace(0, 1, False, (ReplicaPlace(0, at(10)), ReplicaPlace(1, at(11)))),
        ShardPlace(3, 1, True, (ReplicaPlace(0, at(12)), ReplicaPlace(1, at(13)), ReplicaPlace(2, at(14)))),
        ShardPlace(4, 0, False, (ReplicaPlace(0, at(15)),)),
    ),
    aggregators=(AggregatorPlace(1, at(20)), AggregatorPlace(2, at(21)), AggregatorPlace(7, at(22), 2)),
)


def test_what_is_left_out_has_a_default(tmp_path: Path) -> None:
    assert load_cluster(write(tmp_path, SMALL)) == ClusterFile(
        name="cluster",
        durability="fsync",
        order_interval_us=0,
        segment_bytes=SEGMENT_BYTES_MAX,
        orderers=(OrdererPlace(1, at(7600)),),
        shards=(ShardPlace(0, 1, False, (ReplicaPlace(0, at(7603)), ReplicaPlace(1, at(7604)))),),
    )


def test_a_dumped_cluster_loads_as_the_same(tmp_path: Path) -> None:
    assert load_cluster(write(tmp_path, dump_cluster(FULL))) == FULL


def test_orderers_and_shards_are_sorted(tmp_path: Path) -> None:
    tables = dump_cluster(FULL).split("\n\n")
    shuffled = "\n\n".join([tables[0], *reversed(tables[1:])])
    assert shuffled != dump_cluster(FULL)
    assert load_cluster(write(tmp_path, shuffled)) == FULL


def test_every_address_once() -> None:
    ports = [1, 2, 3, 10, 11, 12, 13, 14, 15, 20, 21, 22]
    assert [address.port for address in FULL.addresses()] == ports


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("[clutser]\n" + SMALL, 1, r"clutser is not known \(did you mean cluster\?\)"),
        ("[cluster]\nnme = 1\n" + SMALL, 2, r"nme is not known \(did you mean name\?\)"),
        ("[cluster]\nname = 1\n" + SMALL, 2, "name is 1: use text"),
        ('[cluster]\nname = "a\\nb"\n' + SMALL, 2, "on one line"),
        ('[cluster]\ndurability = "sync"\n' + SMALL, 2, r"did you mean fsync\?"),
        ("[cluster]\n\norder_interval_us = -1\n" + SMALL, 3, "order_interval_us is -1: use a whole number from 0"),
        ("[cluster]\nsegment_bytes = 1\n" + SMALL, 2, "segment_bytes is 1"),
        ("[[cluster]]\n" + SMALL, 1, r"make it a table, \[cluster\]"),
        ("[orderer]\nserver = 1\n", 1, r"make it an array of tables, \[\[orderer\]\]"),
        (SMALL.replace("server", "sever"), 2, r"sever is not known \(did you mean server\?\): use one of server, add"),
        (SMALL.replace("server = 1\n", ""), 1, r"server is missing in \[\[orderer\]\]"),
        (SMALL.replace("server = 1", "server = 0"), 2, "server is 0: use a whole number from 1"),
        (SMALL.replace("shard = 0", "shard = true"), 5, "shard is True"),
        (SMALL.replace("shard = 0\n", ""), 4, r"shard is missing in \[\[shard\]\]"),
        (SMALL.replace("replicas = [", "repicas = ["), 6, r"did you mean replicas\?"),
        (SMALL + "masking = 1\n", 7, "masking is 1: use true or false"),
        (SMALL + "masking = true\n", 6, "shard 0 has 2 replicas with masking.*use 3, 5, 7"),
        (SMALL.replace('"127.0.0.1:7603", ', "7603, "), 6, "use a list of texts"),
        (SMALL.replace("127.0.0.1:7604", "127.0.0.1"), 6, "'127.0.0.1' is not an address"),
        (SMALL.replace(', "127', ',\n# "no:1"\n  "127').replace("7604", "0"), 8, "use one from 1 to 65535"),
        (SMALL.replace("7604", "7603"), 6, "7603 is the address of replica 0 of shard 0, too: give replica 1 of"),
        (SMALL.replace("7604", "7600"), 6, "7600 is the address of orderer 1, too"),
        (SMALL.replace("127.0.0.1:7604", "0.0.0.0:7604"), 6, "nowhere in particular"),
        (SMALL[: SMALL.index("[[shard")], 0, "there is no shard"),
        (SMALL[SMALL.index("[[shard") :], 0, "there is no orderer"),
        (SMALL.replace('"127.0.0.1:7603", "127.0.0.1:7604"', ""), 6, "shard 0 has 0 replicas: use 1 to 15"),
        (SMALL + '[[shard]]\nreplicas = ["a:1"]\nshard = 0\n', 9, "shard 0 is there twice"),
        (SMALL + '[[orderer]]\nserver = 1\naddress = "a:1"\n', 8, "server 1 is there twice"),
        (SMALL + '[[orderer]]\nserver = 2\naddress = "a:1"\njoins = 1\n', 10, "joins is 1: use true or false"),
        (SMALL + '[[shard]]\nshard = 1\nreplicas = ["a:1"]\n[shard.more]\n', 10, "more is not known"),
        ('shard = [{ shard = 0, replicas = ["a:1"] }]\norderer = [{ server = 1, address = "a" }]\n', 2, "not an addr"),
        (SMALL + "[[shard]\n", 7, "is not TOML"),
        (SMALL + "[aggregator]\naddress = 1\n", 7, r"make it an array of tables, \[\[aggregator\]\]"),
        (SMALL + "[[aggregator]]\naggregator = 0\n", 8, "aggregator is 0: use a whole number from 1"),
        (SMALL + "[[aggregator]]\naggregator = 1\n", 7, r"address is missing in \[\[aggregator\]\]"),
        (SMALL + "[[aggregator]]\naggregator = 1\nlevel = 8\n", 9, "level is 8: use a whole number from 1 to 7"),
        (
            SMALL + '[[aggregator]]\naggregator = 1\naddress = "127.0.0.1:7603"\n',
            9,
            "replica 0 of shard 0, too: give agg",
        ),
        (SMALL + 2 * '[[aggregator]]\naggregator = 1\naddress = "a:1"\n', 11, "aggregator 1 is there twice"),
        (SMALL + '[[aggregator]]\naggregator = 1\naddress = "a:1"\nlevel = 2\n', 7, "of level 2 and none of level 1"),
        (
            '[cluster]\nengine = "belfast"\n' + SMALL + '[[aggregator]]\naggregator = 1\naddress = "a:1"\n',
            9,
            "the engine belfast has no aggregators.*: scalog",
        ),
    ],
)
def test_each_mistake_is_named_by_its_line(tmp_path: Path, text: str, line: int, message: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError, match=message) as caught:
        load_cluster(path)
    assert (caught.value.file, caught.value.line) == (str(path), line)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_cluster(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:7600", Address("127.0.0.1", 7600)),
        ("localhost:1", Address("localhost", 1)),
        ("[fe80::1]:65535", Address("fe80::1", 65535)),
    ],
)
def test_addresses(text: str, address: Address) -> None:
    assert parse_address(text) == address
    assert str(address) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", ":", "7600", "host", "host:", ":7600", "host:0", "host:65536", "host:-1", "host:1e3", "host:7600 "),
        *("::1:7600", "[::1]", "[host]:1", "[]:1", "a b:1", "http://host:1", "me@host:1"),
    ],
)
def test_what_is_not_an_address(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"^'.*' (is not an address|names no host|has port)"):
        parse_address(text)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        ("10.0.0.7", False),
        ("::", False),
        ("one.example", False),
        ("localhost.example", False),
    ],
)
def test_who_can_be_reached_from_elsewhere(host: str, expected: bool) -> None:
    assert is_loopback(Address(host, 1)) is expected


def test_a_cluster_has_one_engine(tmp_path: Path) -> None:
    plain = load_cluster(write(tmp_path, SMALL))
    assert plain.engine == "scalog"
    assert load_cluster(write(tmp_path, '[cluster]\nengine = "corfu"\n' + SMALL)) == replace(plain, engine="corfu")
    assert load_cluster(write(tmp_path, dump_cluster(replace(plain, engine="raft")))).engine == "raft"
    for wrong in ('""', '"a b"', '"7"', "7", f'"{"x" * 33}"'):
        with pytest.raises(ConfigError, match=r"toml:2: engine is .*use lower-case letters"):
            load_cluster(write(tmp_path, f"[cluster]\nengine = {wrong}\n" + SMALL))


def test_a_log_is_founded_by_an_odd_number_of_orderers_and_may_have_any_later(tmp_path: Path) -> None:
    two = SMALL + '[[orderer]]\nserver = 2\naddress = "a:1"\n'
    with pytest.raises(ConfigError, match=r"there are 2 orderers: an even number survives no .*use 1 or 3"):
        check_founders(load_cluster(write(tmp_path, two)))
    joined = load_cluster(write(tmp_path, two + "joining = true\n"))
    assert load_cluster(write(tmp_path, two + "joins = true\n")) == joined, "its former name"
    assert check_founders(joined) == {1: at(7600)}
    assert joined.orderer(2) == OrdererPlace(2, Address("a", 1), joining=True)
    assert load_cluster(write(tmp_path, dump_cluster(joined))) == joined
    with pytest.raises(ConfigError, match=r"no orderer 3 in the cluster's file, only \[1, 2\]"):
        joined.orderer(3)
