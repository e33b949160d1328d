"""What a history says of each position and of each id, put side by side.

Positions lie on an *axis*: all that anybody spoke of, in order. Ids are numbers too: the rank of the session
in the upper bits, the number in the lower 40, so that they sort by session and number. What a position
holds is what the dumps say, and where they say nothing, what somebody saw there.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ithaca.model.positions import FIRST
from ithaca.proof.columns import EMPTY, FAIL, JUNK, LOST, NOOP, NULL, OK, TRIMMED, Collected, Ints, distinct
from ithaca.proof.history import BadHistory
from ithaca.proof.speculation import Speculation

Flags = NDArray[np.bool_]

_NUMBER_BITS = 40
_SESSIONS_MAX = 1 << 22
UNSEEN = -(1 << 40)
"""What a position holds that nobody saw."""
ABSENT = -1
"""The place of an id that is nowhere."""


def _special(code: tuple[int, int]) -> int:
    return -1 - code[1]


NULL_ID, NOOP_ID, JUNK_ID, LOST_ID, TRIMMED_ID, EMPTY_ID = map(_special, (NULL, NOOP, JUNK, LOST, TRIMMED, EMPTY))
_SPECIAL_NAMES = {NOOP_ID: "a no-op", JUNK_ID: "junk", LOST_ID: "a loss", EMPTY_ID: "no record", UNSEEN: "nothing"}


RECEIPT = "a receipt"


class Seen(NamedTuple):
    """Positions that somebody saw, with what was there."""

    who: str
    pos: Ints
    id: Ints
    time: Ints | None
    at: Ints
    """Where the positions are on the axis."""


class Records(NamedTuple):
    """The records of all lines that did not fail, one by one."""

    line: Ints
    number: Ints
    """Which id this is, as an index into `Ledger.ids`."""
    unit_offset: Ints
    pos: Ints
    """As the receipt says; meaningless without one."""


class Ledger:
    """Everything that the rules look at."""

    def __init__(self, history: Collected, speculation: Speculation) -> None:
        self.history = history
        self._sessions = _all_sessions(history)
        self.trimmed_to = max((trim.before for trim in history.trims), default=FIRST)
        """Positions below may be gone."""
        did_not_fail = history.lines.status != FAIL
        line, offset, ids = self._expanded(np.flatnonzero(did_not_fail))
        self.ids = distinct(ids)
        """Of every record that may have been appended, in order."""
        unit_offset = history.lines.offset[line] + offset
        self.records = Records(line, np.searchsorted(self.ids, ids), unit_offset, self._receipts(line, offset))
        failed = distinct(self._expanded(np.flatnonzero(~did_not_fail))[2])
        self.failed_ids = failed[self.number_of(failed) == ABSENT]
        """Of every record that certainly was not appended."""
        sightings = self._sightings(speculation)
        ends = [np.array([each.stop for each in history.ranges], np.int64) - 1, history.marks.up_to - 1]
        spoken_of = [history.reads.pos, history.tails.n, history.tails.n - 1, *ends]
        spoken_of += [pos for _, pos, _, _ in sightings]
        self.axis = distinct(np.concatenate(spoken_of))
        self.seen = [Seen(who, pos, ids, time, self.at(pos)) for who, pos, ids, time in sightings]
        self.held = self._holders()
        """What each position of the axis holds: an id, a no-op, junk, no record for ever, or `UNSEEN`."""
        self.lost = self._losses()
        """Which positions of the axis somebody was told, or some dump says, are lost."""
        self.numbers = self.number_of(self.held)
        """Which id each position of the axis holds, as an index into `ids`; `ABSENT` without one."""
        self.place = np.full(len(self.ids), ABSENT, np.int64)
        """Where on the axis each id is; `ABSENT` when it is nowhere."""
        known = np.flatnonzero(self.numbers >= 0)
        self.place[self.numbers[known]] = known

    # Building

    def _expanded(self, chosen: Ints) -> tuple[Ints, Ints, Ints]:
        """Line, place in the line and id of each record of the chosen lines."""
        lines = self.history.lines
        sizes = lines.size[chosen]
        line = np.repeat(chosen, sizes)
        offset = np.arange(len(line)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return line, offset, self.id_of(lines.session[line], lines.seq[line] + offset)

    def _receipts(self, line: Ints, offset: Ints) -> Ints:
        positions = self.history.lines.pos[line] + offset
        for number, listed in self.history.scattered.items():
            first, last = np.searchsorted(line, [number, number + 1])
            if first < last:
                positions[first:last] = listed
        return positions

    def _sightings(self, speculation: Speculation) -> list[tuple[str, Ints, Ints, Ints | None]]:
        """Who saw what where and when; the dumps last, because their word counts most."""
        history, lines, records = self.history, self.history.lines, self.records
        acknowledged = np.flatnonzero(lines.status[records.line] == OK)
        receipts = records.line[acknowledged]
        reads, found = history.reads, self.id_of(history.reads.session, history.reads.seq)
        real = np.flatnonzero((found != NULL_ID) & (found != TRIMMED_ID))
        delivered, rows = history.deliveries, history.rows
        confirmed = np.array([(each.pos, *each.id, each.time) for each in speculation.confirmed], np.int64).reshape(
            -1, 4
        )
        return [
            ("a confirmation", confirmed[:, 0], self.id_of(confirmed[:, 1], confirmed[:, 2]), confirmed[:, 3]),
            ("a delivery", delivered.pos, self.id_of(delivered.session, delivered.seq), delivered.time),
            ("a range", rows.pos, self.id_of(rows.session, rows.seq), rows.time),
            ("a read", reads.pos[real], found[real], reads.ret[real]),
            (RECEIPT, records.pos[acknowledged], self.ids[records.number[acknowledged]], lines.ret[receipts]),
            *(
                (f"the dump of {dump.node}", dump.pos, self.id_of(dump.session, dump.seq), None)
                for dump in history.dumps
            ),
        ]

    def _holders(self) -> Ints:
        held = np.full(len(self.axis), UNSEEN, np.int64)
        for seen in self.seen:
            real = seen.id != LOST_ID
            held[seen.at[real]] = seen.id[real]
        return held

    def _losses(self) -> Flags:
        lost = np.zeros(len(self.axis), bool)
        for seen in self.seen:
            lost[seen.at[seen.id == LOST_ID]] = True
        return lost

    # Asking

    def id_of(self, session: Ints, seq: Ints) -> Ints:
        """The numbers that stand for ids, or, below 0, for what is none."""
        rank = np.searchsorted(self._sessions, session)
        found: Ints = np.where(session < 0, -1 - seq, (rank << _NUMBER_BITS) | seq)
        return found

    def number_of(self, ids: Ints) -> Ints:
        """Where ids are in `ids`; `ABSENT` for those that nobody can have appended."""
        if not len(self.ids):
            return np.full(len(ids), ABSENT, np.int64)
        numbers = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        return np.where(self.ids[numbers] == ids, numbers, ABSENT)

    def session_of(self, ids: Ints) -> Ints:
        """Equal for ids of the same session."""
        found: Ints = ids >> _NUMBER_BITS
        return found

    def at(self, positions: Ints) -> Ints:
        """Where positions of the axis are on it."""
        if len(self.axis) and self.axis[-1] - self.axis[0] + 1 == len(self.axis):
            places: Ints = positions - self.axis[0]
            return places
        return np.searchsorted(self.axis, positions)

    def may_be_gone(self) -> Flags:
        """Which positions of the axis may have been trimmed."""
        return self.axis < self.trimmed_to

    def is_record(self) -> Flags:
        """Which positions of the axis hold a record."""
        return self.held >= 0

    def holes(self) -> Ints:
        """Positions that are known to hold no record: nobody delivers them."""
        found: Ints = self.axis[self.lost | np.isin(self.held, (NOOP_ID, JUNK_ID, EMPTY_ID))]
        return found

    def due(self, low: Ints, high: Ints) -> Ints:
        """How many records each of the ranges `[low, high)` has for those who deliver all.

        Where positions are dense, all that are no holes; elsewhere those that anybody saw or was told of.
        """
        if self.history.plan.dense:
            holes = self.holes()
            return np.asarray(high - low - (np.searchsorted(holes, high) - np.searchsorted(holes, low)), np.int64)
        records = self.axis[self.is_record() & ~self.lost]
        return np.asarray(np.searchsorted(records, high) - np.searchsorted(records, low), np.int64)

    def name(self, id_number: int) -> str:
        """An id, or what stands in its place, for people."""
        if id_number < 0:
            return _SPECIAL_NAMES[id_number]
        return f"{self._sessions[id_number >> _NUMBER_BITS]}/{id_number & ((1 << _NUMBER_BITS) - 1)}"


def _all_sessions(history: Collected) -> Ints:
    sources = [history.lines.session, history.reads.session, history.deliveries.session, history.rows.session]
    sources += [dump.session for dump in history.dumps]
    sources.append(np.array([event.id[0] for _, event in history.speculation if hasattr(event, "id")], np.int64))
    sessions = distinct(np.concatenate(sources))
    if len(sessions) >= _SESSIONS_MAX:
        raise BadHistory(f"{len(sessions)} sessions are more than can be judged: {_SESSIONS_MAX - 1}")
    return sessions[sessions >= 0]
