"""The messages of this engine, with the numbers of their frames. Calls of `sequencing` that carry no batch go as they
are.

| type | message | from → to | answered by | payload |
|---|---|---|---|---|
| 150 | WriteRow | client → unit | RowWritten, RowContent, RowTrimmed | the batch, unless it is junk |
| 151 | RowContent | back | | the batch, unless it is junk |
| 152 | Read | client → unit | RowContent, RowUnwritten, RowTrimmed | |
| 153–159 | Seal, Install, TrimRows, ListMissing, GetSessionTail, GetTrims, TakeTrims | client → unit | 160–169 | |
| 160–169 | RowWritten … TrimsAre | back | | |
| 170 | EpochIs | back, of units and sequencers | | |
| 171 | CallRefused | back | | |
| 172 | GetIdentity | leader → unit | IdentityIs | |
| 173 | IdentityIs | back | | |
| 188 | Renew | leader → unit | IdentityIs | |
| 174–176 | TakeTokens, Fence, GetTail | client → sequencer | the answers 177–180 | |
| 177–180 | Tokens, SessionFence, TailReply, NotReady | back | | |
| 181 | Decide | anyone → leader | Known, SessionIs or Void | |
| 182 | GetProjection | anyone → leader | Known | |
| 183 | GetSessions | sequencer → leader | SessionsAre | |
| 184–187 | Known, SessionIs, Void, SessionsAre | back | | |
| 189 | GetHighest | client → unit | HighestIs | |
| 190 | HighestIs | back | | |
| 191 | TakeRow | client → sequencer | Tokens, TailReply, NotReady | |
| 192 | GetSession | client → leader | SessionsAre | |
| 193 | LocateRows | client → unit | RowLocations | |
| 194 | RowLocations | back | | |
| 195 | AwaitRow | client → unit | as Read, or later | |
| 196 | ReadRows | client → unit | RowsContent | |
| 197 | RowsContent | back | | the batches of all rows but junk, one behind the other |
"""

from collections.abc import Iterator, Sequence
from typing import Annotated
from uuid import UUID

import msgspec

from ithaca.engines.corfu.sequencing import calls, commands
from ithaca.engines.corfu.sequencing.calls import RowHolds, RowsHold, UnitAnswer, UnitCall, Write
from ithaca.engines.corfu.sequencing.entries import JUNK, Entry, entry_of
from ithaca.engines.corfu.sequencing.limits import ROW_POSITIONS, STRETCH_ROWS_MAX
from ithaca.engines.corfu.sequencing.projection import Natural, RowNumber
from ithaca.model.errors import ProtocolError
from ithaca.model.records import Buffer
from ithaca.protocol.codec import Message, always, register
from ithaca.wire.batch import DATA, parse


class WriteRow(msgspec.Struct, frozen=True, array_like=True):
    """Put the batch in the payload, or junk, into a row."""

    epoch: Natural
    row: RowNumber
    time_us: int


class RowContent(msgspec.Struct, frozen=True, array_like=True):
    """What is in the row: the batch in the payload, or junk."""

    time_us: int
    first: Natural = 0
    """Everything before this position was trimmed, as far as the unit knows."""
    highest: Annotated[int, msgspec.Meta(ge=-1)] = -1
    """The highest row that was ever written there, durably."""


class RowsContent(msgspec.Struct, frozen=True, array_like=True):
    """What is in these rows: for each its time, and how many bytes of the payload its batch has, 0 for junk.

    All others that were asked for below `up_to` were trimmed.
    """

    up_to: RowNumber
    first: Natural
    """Everything before this position was trimmed, as far as the unit knows."""
    highest: Annotated[int, msgspec.Meta(ge=-1)]
    """The highest row that was ever written there, durably."""
    rows: Annotated[tuple[RowNumber, ...], msgspec.Meta(max_length=STRETCH_ROWS_MAX)]
    times_us: Annotated[tuple[int, ...], msgspec.Meta(max_length=STRETCH_ROWS_MAX)]
    sizes: Annotated[tuple[Natural, ...], msgspec.Meta(max_length=STRETCH_ROWS_MAX)]


class GetIdentity(msgspec.Struct, frozen=True, array_like=True):
    """Which unit is this?"""


class IdentityIs(msgspec.Struct, frozen=True, array_like=True):
    identity: UUID
    is_used: bool = False
    """Whether it has ever belonged to an epoch."""


class Renew(msgspec.Struct, frozen=True, array_like=True):
    """No projection means this unit any more: it is to forget everything, and to draw another identity."""

    identity: UUID


class Decide(msgspec.Struct, frozen=True, array_like=True):
    """Have Raft decide on this; the outcome is the answer."""

    command: commands.Command
    by_administrator: bool = False
    """Whether an administrator has asked for it; else a client or a server goes on after a failure."""


_ADMINISTRATIVE = (commands.NextEpoch, commands.AddUnit, commands.ExpireSession, commands.TrimLog)

UNIT_CALLS = (
    calls.Read,
    calls.Seal,
    calls.Install,
    calls.TrimRows,
    calls.ListMissing,
    calls.GetSessionTail,
    calls.GetTrims,
    calls.TakeTrims,
    calls.GetHighest,
    calls.LocateRows,
    calls.AwaitRow,
    calls.ReadRows,
)
SEQUENCER_CALLS = (calls.TakeTokens, calls.Fence, calls.GetTail, calls.TakeRow)

register(
    {
        150: WriteRow,
        151: RowContent,
        **dict(enumerate(UNIT_CALLS[:8], 152)),
        160: calls.RowWritten,
        161: calls.RowUnwritten,
        162: calls.RowTrimmed,
        163: calls.UnitSealed,
        164: calls.UnitInstalled,
        165: calls.OtherIdentity,
        166: calls.RowsTrimmed,
        167: calls.MissingRows,
        168: calls.SessionTailReply,
        169: calls.TrimsAre,
        170: calls.EpochIs,
        171: calls.CallRefused,
        172: GetIdentity,
        173: IdentityIs,
        **dict(enumerate(SEQUENCER_CALLS[:3], 174)),
        177: calls.Tokens,
        178: calls.SessionFence,
        179: calls.TailReply,
        180: calls.NotReady,
        181: Decide,
        182: calls.GetProjection,
        183: commands.GetSessions,
        184: calls.Known,
        185: commands.SessionIs,
        186: commands.Void,
        187: commands.SessionsAre,
        188: Renew,
        189: calls.GetHighest,
        190: calls.HighestIs,
        191: calls.TakeRow,
        192: commands.GetSession,
        193: calls.LocateRows,
        194: calls.RowLocations,
        195: calls.AwaitRow,
        196: calls.ReadRows,
        197: RowsContent,
    },
    for_servers=(Renew,),
    administrative={
        Decide: lambda message: isinstance(message.command, _ADMINISTRATIVE),
        calls.TrimRows: always,
    },
)


def said_call(call: UnitCall) -> tuple[Message, Sequence[Buffer]]:
    """A call to a unit as it goes over the wire, and what goes beside it."""
    if isinstance(call, Write):
        return WriteRow(call.epoch, call.row, call.entry.time_us), _payload(call.entry)
    return call, ()


def heard_call(message: Message, payload: Buffer) -> UnitCall:
    """The call that a message says; `ProtocolError` when it is none, `Corrupt` when its batch is damaged."""
    if isinstance(message, WriteRow):
        return Write(message.epoch, message.row, _entry(payload, message.time_us))
    if isinstance(message, UNIT_CALLS):
        return message
    raise ProtocolError(f"a unit does not know {type(message).__name__}")


def said_answer(answer: UnitAnswer) -> tuple[Message, Sequence[Buffer]]:
    if isinstance(answer, RowHolds):
        return RowContent(answer.entry.time_us, answer.first, answer.highest), _payload(answer.entry)
    if isinstance(answer, RowsHold):
        rows = tuple(row for row, _ in answer.rows)
        entries = [entry for _, entry in answer.rows]
        times_us = tuple(entry.time_us for entry in entries)
        sizes = tuple(0 if entry.batch is None else entry.batch.total_bytes for entry in entries)
        message = RowsContent(answer.up_to, answer.first, answer.highest, rows, times_us, sizes)
        return message, [part for entry in entries for part in _payload(entry)]
    return answer, ()


def heard_answer(message: Message, payload: Buffer) -> object:
    """What a unit's message says."""
    if isinstance(message, RowContent):
        return RowHolds(_entry(payload, message.time_us), message.first, message.highest)
    if isinstance(message, RowsContent):
        return RowsHold(message.up_to, tuple(_entries(message, payload)), message.first, message.highest)
    return message


def _entries(message: RowsContent, payload: Buffer) -> Iterator[tuple[int, Entry]]:
    rows, times_us, sizes = message.rows, message.times_us, message.sizes
    if not len(rows) == len(times_us) == len(sizes) or sum(sizes) != len(payload):
        raise ProtocolError(f"{len(payload)} bytes came for {len(rows)} rows, which are {sum(sizes)} bytes in all")
    at = 0
    for row, time_us, size in zip(rows, times_us, sizes, strict=True):
        yield row, _entry_at(payload, at, size, time_us)
        at += size


def _payload(entry: Entry) -> Sequence[Buffer]:
    return () if entry.batch is None else entry.batch.buffers()


def _entry(payload: Buffer, time_us: int) -> Entry:
    return _entry_at(payload, 0, len(payload), time_us)


def _entry_at(payload: Buffer, at: int, size: int, time_us: int) -> Entry:
    """What is in a row of which so many bytes came."""
    if not size:
        return JUNK
    batch = parse(payload, at)
    if batch.kind != DATA or batch.count > ROW_POSITIONS or batch.total_bytes != size:
        raise ProtocolError(f"a row takes one batch of at most {ROW_POSITIONS} records")
    return entry_of(batch, time_us)
