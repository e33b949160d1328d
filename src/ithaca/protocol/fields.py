"""Bounds that fields of messages have in common."""

from typing import Annotated

from msgspec import Meta

from ithaca.model.limits import BOOT_MAX, HELLO_TEXT_BYTES_MAX, REPLICA_NUMBER_MAX, SHARD_NUMBER_MAX

Natural = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Counted = Annotated[int, Meta(ge=1, le=(1 << 63) - 1)]
ShardNumber = Annotated[int, Meta(ge=0, le=SHARD_NUMBER_MAX)]
ReplicaNumber = Annotated[int, Meta(ge=0, le=REPLICA_NUMBER_MAX)]
Boot = Annotated[int, Meta(ge=1, le=BOOT_MAX)]
Text = Annotated[str, Meta(max_length=HELLO_TEXT_BYTES_MAX)]
