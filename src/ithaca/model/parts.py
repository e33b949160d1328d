"""Prepared appends: a part that was prepared, and what publishing some of them gave (design §5)."""

from typing import Annotated

import msgspec
from msgspec import Meta

from ithaca.model.decoding import UNDECODABLE
from ithaca.model.errors import InvalidInput
from ithaca.model.limits import LANE_RECORDS_MAX, PART_TOKEN_BYTES
from ithaca.model.positions import LaneId

Token = Annotated[bytes, Meta(min_length=PART_TOKEN_BYTES, max_length=PART_TOKEN_BYTES)]


class Part(msgspec.Struct, frozen=True, array_like=True):
    """Records that are durable in a shard and not ordered: `log.publish` gives them positions.

    It is small and can be sent anywhere: with pickle, or as bytes.

    >>> part = Part(LaneId(0, 1, 1 << 30), 250, bytes(16))
    >>> part.shard, part.length, Part.from_bytes(part.to_bytes()) == part
    (0, 250, True)
    """

    lane: LaneId
    length: Annotated[int, Meta(ge=0, le=LANE_RECORDS_MAX)]
    """Records in it."""
    token: Token

    @property
    def shard(self) -> int:
        return self.lane.shard

    def to_bytes(self) -> bytes:
        """Some 30 bytes that say it all."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> "Part":
        """The inverse of `to_bytes`; `InvalidInput` for what is none."""
        try:
            part = _decoder.decode(data)
        except UNDECODABLE as error:
            raise InvalidInput(f"these {len(data)} bytes are no prepared part: {error}") from error
        if not part.lane.is_part:
            raise InvalidInput(f"lane {part.lane} is no prepared part")
        return part


_decoder = msgspec.msgpack.Decoder(Part)


class Published(msgspec.Struct, frozen=True, array_like=True):
    """What a writer published under a key: `count` records from `position` on.

    >>> Published("loader", 7, "", position=11, count=2).positions
    range(11, 13)
    """

    writer: str
    key: int
    owner: str
    position: int
    """Of the first record; where it would have been, if there was none."""
    count: int

    @property
    def positions(self) -> range:
        return range(self.position, self.position + self.count)
