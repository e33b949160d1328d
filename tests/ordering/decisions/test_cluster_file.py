"""What a cluster's file asks for, by what is agreed."""

from dataclasses import replace
from uuid import UUID

from msgspec import structs
from tests.ordering.building import CONFIGURATION, Driver
from tests.server.orderers import cluster_file

from ithaca.engines.scalog.ordering.decisions.cluster_file import missing
from ithaca.engines.scalog.ordering.entries import Configure, Finalize, RegisterShard, TrimTo
from ithaca.engines.scalog.ordering.state import OrderingState

LOG = UUID(int=9)
FILE = cluster_file(orderers=1, shards=2)


def test_a_new_log_is_configured_and_gets_its_shards() -> None:
    configure, *shards = missing(FILE, OrderingState(), LOG)
    assert isinstance(configure, Configure)
    assert (configure.configuration.log, configure.configuration.engine) == (LOG, FILE.engine)
    assert [each.shard for each in shards if isinstance(each, RegisterShard)] == [0, 1]


def test_what_is_agreed_is_not_asked_for_again() -> None:
    driver = Driver()
    for entry in missing(FILE, driver.state, LOG):
        driver.apply(entry)
    assert missing(FILE, driver.state, LOG) == []
    assert driver.state.configuration == CONFIGURATION


def test_the_file_may_change_the_interval_alone() -> None:
    driver = Driver()
    driver.shard(0)
    driver.shard(1)
    (configure,) = missing(replace(FILE, order_interval_us=7), driver.state, LOG)
    assert configure == Configure(structs.replace(CONFIGURATION, order_interval_us=7))


def test_a_shard_that_was_reclaimed_does_not_come_back() -> None:
    driver = Driver()
    driver.shard(0)
    driver.shard(1)
    driver.apply(Finalize(1))
    driver.apply(TrimTo(1))
    assert driver.state.shards.was_reclaimed(1)
    assert missing(FILE, driver.state, LOG) == []
