"""The sequencer: a counter that hands out rows, one epoch at a time (§2.3 of the paper).

It gives only rows below a bound that Raft has granted, and a new one starts at that bound: no row is given twice,
whoever forgets what. It answers nothing before everything below its start is settled.

Whoever brings his own order names a row himself. If it is not a session's it is his, and so are those that were passed
over for it: they have times of their own, and stay free for others who name them.

Whoever asks under an epoch in which it has not begun yet is kept for a while: Raft has decided on that epoch already,
so it is about to begin.

A session has one row at a time. It gets the same one again until it says that it is settled; so what a handle that was
fenced may still write is one row, which the sequencer names.
"""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Generic, NamedTuple, TypeVar

from ithaca.engines.corfu.sequencing.calls import (
    EpochIs,
    Fence,
    GetTail,
    NotReady,
    SequencerAnswer,
    SequencerCall,
    SessionFence,
    TailReply,
    TakeRow,
    TakeTokens,
    Token,
    Tokens,
    Want,
)
from ithaca.engines.corfu.sequencing.limits import (
    CHOSEN_ROWS_MAX,
    GRANT_ROWS,
    KEPT_MAX,
    SEQUENCER_SESSIONS_MAX,
    WRITE_AHEAD_ROWS,
)
from ithaca.engines.corfu.sequencing.rows import NONE

CallerT = TypeVar("CallerT")


@dataclass(frozen=True, slots=True)
class Began:
    """Raft has this server hand out rows in this epoch, from `start` on, and below `bound`.

    What precedes is settled by now, and `fences` are the epochs of all named sessions, as Raft had them after this
    epoch was decided. Every unit's order time was below `time_us` when it was sealed.
    """

    epoch: int
    start: int
    bound: int
    fences: tuple[tuple[int, int], ...]
    time_us: int


@dataclass(frozen=True, slots=True)
class Granted:
    """Raft has raised the bound of this epoch."""

    epoch: int
    bound: int


@dataclass(frozen=True, slots=True)
class Asked(Generic[CallerT]):
    caller: CallerT
    call: SequencerCall
    now_us: int


@dataclass(frozen=True, slots=True)
class Reply(Generic[CallerT]):
    caller: CallerT
    answer: SequencerAnswer


@dataclass(frozen=True, slots=True)
class AskGrant:
    """Have Raft raise the bound; asked for once until it is granted."""

    epoch: int
    bound: int


@dataclass(frozen=True, slots=True)
class Overdue:
    """`KEPT_MS` have passed since that `Keep`."""

    number: int


@dataclass(frozen=True, slots=True)
class Keep:
    """Somebody is answered later: when this server begins, or is `Overdue`."""

    number: int


SequencerEvent = Began | Granted | Asked[CallerT] | Overdue
SequencerEffect = Reply[CallerT] | AskGrant | Keep


class _Chosen(NamedTuple):
    """Rows `[low, high)` that no session gets, because somebody named the last of them."""

    low: int
    high: int
    time_us: int
    """Of the first; each has the next one."""


class _Session:
    """What is known of a session in this epoch."""

    __slots__ = ("epoch", "row", "time_us")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.row: int = NONE
        self.time_us = 0


class Sequencer(Generic[CallerT]):
    """The core of one sequencer."""

    def __init__(self, *, grant_rows: int | None = None, sessions_max: int | None = None) -> None:
        self.epoch = 0
        """0 until it has begun."""
        self.next_row = 0
        self.bound = 0
        self.given = 0
        """Rows that were handed out, in all epochs."""
        self.time_us = 0
        """The order's, as the last token had it."""
        self._grant_rows = GRANT_ROWS if grant_rows is None else grant_rows
        self._sessions_max = SEQUENCER_SESSIONS_MAX if sessions_max is None else sessions_max
        self._asked_bound = 0
        self._sessions: OrderedDict[int, _Session] = OrderedDict()
        self._fences: dict[int, int] = {}
        self._is_forgetful = False
        self._chosen: list[_Chosen] = []
        """In the order of their rows."""
        self.kept: dict[int, Asked[CallerT]] = {}
        """Who waits for an epoch in which it has not begun."""
        self._kept_last = 0

    def step(self, event: SequencerEvent[CallerT]) -> Sequence[SequencerEffect[CallerT]]:
        match event:
            case Began():
                return self._begin(event)
            case Granted(epoch, bound):
                if epoch == self.epoch:
                    self.bound = max(self.bound, bound)
                return []
            case Asked(caller, call, now_us):
                if call.epoch > self.epoch and len(self.kept) < KEPT_MAX:
                    self._kept_last += 1
                    self.kept[self._kept_last] = event
                    return [Keep(self._kept_last)]
                return self._answer(caller, call, now_us)
            case Overdue(number):
                overdue = self.kept.pop(number, None)
                return [] if overdue is None else [Reply(overdue.caller, EpochIs(self.epoch, False))]

    def _begin(self, began: Began) -> Sequence[SequencerEffect[CallerT]]:
        if began.epoch <= self.epoch:
            return []
        self.epoch, self.next_row, self.bound = began.epoch, began.start, began.bound
        self._asked_bound = began.bound
        self.time_us = max(self.time_us, began.time_us)
        self._sessions.clear()
        self._fences = dict(began.fences)
        self._is_forgetful = False
        self._chosen.clear()
        effects: list[SequencerEffect[CallerT]] = [*self._grant_in_time()]
        for number in [number for number, asked in self.kept.items() if asked.call.epoch <= self.epoch]:
            asked = self.kept.pop(number)
            effects += self._answer(asked.caller, asked.call, asked.now_us)
        return effects

    def _answer(self, caller: CallerT, call: SequencerCall, now_us: int) -> Sequence[SequencerEffect[CallerT]]:
        if call.epoch != self.epoch or not self.epoch:
            return [Reply(caller, EpochIs(self.epoch, False))]
        match call:
            case TakeTokens(_, wants):
                return self._give(caller, wants, now_us)
            case TakeRow(_, row):
                return self._give_chosen(caller, row, now_us)
            case Fence(_, producer, session_epoch):
                return [Reply(caller, self._fence(producer, session_epoch))]
            case GetTail():
                return [Reply(caller, TailReply(self.next_row))]

    def _give(self, caller: CallerT, wants: Iterable[Want], now_us: int) -> Sequence[SequencerEffect[CallerT]]:
        wants = tuple(wants)
        if self.next_row + len(wants) > self.bound:
            return [Reply(caller, NotReady()), *self._grant_in_time()]
        tokens = Tokens(tuple(self._token(want, now_us) for want in wants))
        return [Reply(caller, tokens), *self._grant_in_time()]

    def _give_chosen(self, caller: CallerT, row: int, now_us: int) -> Sequence[SequencerEffect[CallerT]]:
        if row >= self.next_row + WRITE_AHEAD_ROWS:
            return [Reply(caller, TailReply(self.next_row))]
        if row >= self.bound:
            return [Reply(caller, NotReady()), *self._grant_in_time(row)]
        if row >= self.next_row:
            chosen = _Chosen(self.next_row, row + 1, max(self.time_us + 1, now_us))
            self._chosen.append(chosen)
            del self._chosen[:-CHOSEN_ROWS_MAX]
            self.next_row, self.time_us = row + 1, chosen.time_us + row - chosen.low
        at = bisect_right(self._chosen, row, key=attrgetter("low")) - 1
        token = Token(NONE, 0)
        if at >= 0 and row < self._chosen[at].high:
            token = Token(row, self._chosen[at].time_us + row - self._chosen[at].low)
        return [Reply(caller, Tokens((token,))), *self._grant_in_time()]

    def _token(self, want: Want, now_us: int) -> Token:
        if want.session_epoch < self._fences.get(want.producer, 0):
            return Token(NONE, 0)
        session = self._session(want.producer, want.session_epoch)
        if want.session_epoch < session.epoch:
            return Token(NONE, 0)
        session.epoch = want.session_epoch
        if session.row <= want.after:
            self.time_us = max(self.time_us + 1, now_us)
            session.row, session.time_us = self.next_row, self.time_us
            self.next_row += 1
            self.given += 1
        return Token(session.row, session.time_us)

    def _fence(self, producer: int, session_epoch: int) -> SessionFence:
        if producer not in self._fences and len(self._fences) >= self._sessions_max:
            return SessionFence(NONE, is_forgotten=True)
        self._fences[producer] = max(self._fences.get(producer, 0), session_epoch)
        session = self._sessions.get(producer)
        if session is None:
            return SessionFence(NONE, is_forgotten=self._is_forgetful)
        return SessionFence(session.row)

    def _session(self, producer: int, epoch: int) -> _Session:
        session = self._sessions.get(producer)
        if session is None:
            if len(self._sessions) >= self._sessions_max:
                self._sessions.popitem(last=False)
                self._is_forgetful = True
            session = self._sessions[producer] = _Session(epoch)
        self._sessions.move_to_end(producer)
        return session

    def _grant_in_time(self, row: int = NONE) -> list[AskGrant]:
        """Half of what was granted is left for the time that Raft takes; `row` is one that somebody wants."""
        reached = max(self.next_row, row + 1)
        if self.bound - reached > self._grant_rows // 2 or self._asked_bound > self.bound:
            return []
        self._asked_bound = reached + self._grant_rows
        return [AskGrant(self.epoch, self._asked_bound)]
