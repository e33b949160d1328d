"""The ordered entries of prepared appends (design §5): a part is opened, sealed, then published or dropped.

| tag            | fields                                           | proposed by                                 |
|----------------|--------------------------------------------------|---------------------------------------------|
| `open-part`    | home lane, token, time to live, time             | a client; the leader adds the time          |
| `seal-part`    | lane, token, length, view                        | the leader, when f+1 replicas have it all   |
| `publish`      | writer, key, owner, parts: [lane, token], time   | a client; the leader adds the time          |
| `abort-parts`  | parts: [lane, token]                             | a client                                    |
| `expire-parts` | lanes, time                                      | the leader                                  |
"""

from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec import Meta

from ithaca.model.errors import InvalidInput
from ithaca.model.limits import (
    LANE_RECORDS_MAX,
    PART_TTL_S_MAX,
    PART_TTL_S_MIN,
    PARTS_MAX,
    PUBLISH_KEY_MAX,
    WRITER_NAME_BYTES_MAX,
)
from ithaca.model.parts import Token
from ithaca.model.positions import LaneId

_Time = Annotated[int, Meta(ge=0, lt=1 << 62)]
_Ttl = Annotated[int, Meta(ge=int(PART_TTL_S_MIN * 1e6), le=int(PART_TTL_S_MAX * 1e6))]

PartName = tuple[LaneId, Token]
"""A part, by its lane and by what only its maker knows."""


class OpenPart(msgspec.Struct, frozen=True, array_like=True, tag="open-part"):
    """Make a part at the replica that writes `home`, as long as that lane is open. The same token again, as a retry,
    gets the same part."""

    home: LaneId
    token: Token
    ttl_us: _Ttl
    time_us: _Time = 0

    def __post_init__(self) -> None:
        if self.home.is_part:
            raise InvalidInput(f"lane {self.home} is a part itself, and no home for one")


class SealPart(msgspec.Struct, frozen=True, array_like=True, tag="seal-part"):
    """The part has this length, all of which f+1 replicas have synced in the configuration that `view` shows."""

    lane: LaneId
    token: Token
    length: Annotated[int, Meta(ge=0, le=LANE_RECORDS_MAX)]
    view: Annotated[int, Meta(ge=0, lt=1 << 62)]

    def __post_init__(self) -> None:
        _check_parts((self.lane,))


class Publish(msgspec.Struct, frozen=True, array_like=True, tag="publish"):
    """Give all parts consecutive positions, in this order, or none of them any; once for each key of a writer."""

    writer: str
    key: Annotated[int, Meta(ge=0, le=PUBLISH_KEY_MAX)]
    owner: str
    parts: Annotated[tuple[PartName, ...], Meta(max_length=PARTS_MAX)]
    time_us: _Time = 0

    def __post_init__(self) -> None:
        if not 0 < len(self.writer.encode()) <= WRITER_NAME_BYTES_MAX:
            raise InvalidInput(f"writer {self.writer!r} is not 1..{WRITER_NAME_BYTES_MAX} bytes long")
        if len(self.owner.encode()) > WRITER_NAME_BYTES_MAX:
            raise InvalidInput(f"owner {self.owner!r} is longer than {WRITER_NAME_BYTES_MAX} bytes")
        lanes = [lane for lane, _ in self.parts]
        _check_parts(lanes)
        if len(set(lanes)) < len(lanes):
            raise InvalidInput("a part stands twice among those to be published")


class AbortParts(msgspec.Struct, frozen=True, array_like=True, tag="abort-parts"):
    """These parts are never published; what was published stays."""

    parts: Annotated[tuple[PartName, ...], Meta(max_length=PARTS_MAX)]

    def __post_init__(self) -> None:
        _check_parts(lane for lane, _ in self.parts)


class ExpireParts(msgspec.Struct, frozen=True, array_like=True, tag="expire-parts"):
    """The order's time is this: those of the parts that were to be published by then never are."""

    lanes: Annotated[tuple[LaneId, ...], Meta(max_length=PARTS_MAX)]
    time_us: _Time


def _check_parts(lanes: Iterable[LaneId]) -> None:
    for lane in lanes:
        if not lane.is_part:
            raise InvalidInput(f"lane {lane} is no prepared part")
