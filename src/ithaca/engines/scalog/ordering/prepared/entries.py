"""The ordered entries of prepared appends (design §5): a part is opened, sealed, then published or dropped.

| tag              | fields                                           | proposed by                                 |
|------------------|--------------------------------------------------|---------------------------------------------|
| `open-part`      | home lane, token, time to live, time             | a client; the leader adds the time          |
| `renew-parts`    | parts: [lane, token], time to live, time         | a client; the leader adds the time          |
| `seal-part`      | lane, token, length, view                        | the leader, when f+1 replicas have it all   |
| `publish`        | writer, key, owner, parts: [lane, token], time,  | a client; the leader adds the time          |
|                  | what was consumed: commits of consumers          |                                             |
| `abort-parts`    | parts: [lane, token]                             | a client                                    |
| `expire-parts`   | lanes (or none), time                            | the leader                                  |
| `forget-writer`  | writer, key                                      | a client                                    |
| `forget-writers` | writers: [writer, key], since, time              | the leader                                  |
"""

from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec import Meta

from ithaca.model.consumers import CommitPosition
from ithaca.model.errors import InvalidInput
from ithaca.model.limits import (
    CONSUMER_COMMANDS_MAX,
    LANE_RECORDS_MAX,
    PART_TTL_S_MAX,
    PART_TTL_S_MIN,
    PARTS_MAX,
    PUBLISH_KEY_MAX,
    WRITER_NAME_BYTES_MAX,
    WRITERS_TOGETHER_MAX,
)
from ithaca.model.parts import Token
from ithaca.model.positions import LaneId

_Time = Annotated[int, Meta(ge=0, lt=1 << 62)]
_Key = Annotated[int, Meta(ge=0, le=PUBLISH_KEY_MAX)]
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


class RenewParts(msgspec.Struct, frozen=True, array_like=True, tag="renew-parts"):
    """Whoever makes these parts, or is to publish them, lives: they expire so much later than now, or as before."""

    parts: Annotated[tuple[PartName, ...], Meta(max_length=PARTS_MAX)]
    ttl_us: _Ttl
    time_us: _Time = 0

    def __post_init__(self) -> None:
        _check_parts(lane for lane, _ in self.parts)


class SealPart(msgspec.Struct, frozen=True, array_like=True, tag="seal-part"):
    """The part has this length, all of which f+1 replicas have synced in the configuration that `view` shows."""

    lane: LaneId
    token: Token
    length: Annotated[int, Meta(ge=0, le=LANE_RECORDS_MAX)]
    view: Annotated[int, Meta(ge=0, lt=1 << 62)]

    def __post_init__(self) -> None:
        _check_parts((self.lane,))


class Publish(msgspec.Struct, frozen=True, array_like=True, tag="publish"):
    """Give all parts consecutive positions, in this order, or none of them any; once for each key of a writer.

    Without a writer nothing is remembered but the parts' own lanes: they say where the records are.
    """

    writer: str
    key: _Key
    owner: str
    parts: Annotated[tuple[PartName, ...], Meta(max_length=PARTS_MAX)]
    time_us: _Time = 0
    consumed: Annotated[tuple[CommitPosition, ...], Meta(max_length=CONSUMER_COMMANDS_MAX)] = ()
    """Positions of named consumers that are committed with it, or it is not published."""

    def __post_init__(self) -> None:
        if len(self.writer.encode()) > WRITER_NAME_BYTES_MAX:
            raise InvalidInput(f"writer {self.writer!r} is longer than {WRITER_NAME_BYTES_MAX} bytes")
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
    """The order's time is this: those of the parts that were to be published by then never are.

    Without parts it says the time alone, before an entry that goes by it (`ordering.entries.goes_by_time`).
    """

    lanes: Annotated[tuple[LaneId, ...], Meta(max_length=PARTS_MAX)]
    time_us: _Time


class ForgetWriter(msgspec.Struct, frozen=True, array_like=True, tag="forget-writer"):
    """The writer does not come back; unless it has published a later key meanwhile."""

    writer: str
    key: _Key


class ForgetWriters(msgspec.Struct, frozen=True, array_like=True, tag="forget-writers"):
    """Forget those of the writers whose newest key is still this one, and was published at `since_us` or before."""

    writers: Annotated[tuple[tuple[str, _Key], ...], Meta(max_length=WRITERS_TOGETHER_MAX)]
    since_us: _Time
    time_us: _Time


def _check_parts(lanes: Iterable[LaneId]) -> None:
    for lane in lanes:
        if not lane.is_part:
            raise InvalidInput(f"lane {lane} is no prepared part")
