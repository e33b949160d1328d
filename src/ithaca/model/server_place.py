"""Which server of a cluster one is."""

from dataclasses import dataclass
from typing import Literal

from ithaca.model.view import Address

Role = Literal["orderer", "replica", "aggregator", "spare"]


@dataclass(frozen=True, slots=True)
class ServerPlace:
    """One server of a cluster. `number` is an orderer's, an aggregator's, a spare's or, within its shard, a replica's.

    A spare keeps its name when it has become a replica.
    """

    role: Role
    number: int
    address: Address
    shard: int | None = None

    @property
    def name(self) -> str:
        """Of its directory and its log."""
        return f"{self.role}-{self.number}" if self.shard is None else f"shard-{self.shard}-replica-{self.number}"

    @property
    def arguments(self) -> list[str]:
        """How `ithaca serve` is told which one it is."""
        if self.role == "spare":
            return ["--spare", str(self.address)]
        if self.shard is None:
            return [f"--{self.role}", str(self.number)]
        return ["--replica", f"{self.shard}/{self.number}"]
