"""What an engine offers to whoever pretends to be its storage servers, to measure the ordering layer alone."""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple, Protocol

from ithaca.model.cut import ShardCut
from ithaca.model.positions import LaneId
from ithaca.model.view import Address
from ithaca.protocol.codec import Message


class EmulatedReport(NamedTuple):
    """What an emulated replica says it has synced."""

    shard: int
    epoch: int
    replica: int
    boot: int
    runs_cut: int
    lengths: tuple[tuple[LaneId, int], ...]


class EmulatedJoin(NamedTuple):
    """What it was told when it joined: the lanes of its shard, and the shard's epoch."""

    lanes: list[LaneId]
    epoch: int


class Emulation(Protocol):
    """How storage servers speak to the ordering layer, and how shards are made without any."""

    async def register(self, orderers: Sequence[Address], shards: int, replicas: int, timeout_s: float) -> Address:
        """Have this many shards in the order, numbered from 0, of which the first is there; returns who leads."""

    async def tail(self, orderers: Sequence[Address], timeout_s: float) -> int:
        """The next position."""

    def aggregator_of(self, shard: int, aggregators: Collection[int]) -> int | None:
        """The aggregator that the leader assigns to the replicas of the shard; None where there is none."""

    def join(self, shard: int, replica: int, boot: int) -> Message:
        """What a replica says first."""

    def joined(self, answer: Message) -> EmulatedJoin:
        """What it is answered; `ProtocolError` for anything else."""

    def report(self, report: EmulatedReport) -> Message: ...

    def cuts(self, news: Message) -> Iterator[ShardCut]:
        """The cuts that it is told of; `ProtocolError` for what no replica is told."""
