"""The core of the sequencer."""

from typing import Any

import pytest

from ithaca.engines.corfu.sequencing.calls import (
    EpochIs,
    Fence,
    GetTail,
    NotReady,
    SessionFence,
    TailReply,
    TakeTokens,
    Token,
    Tokens,
    Want,
)
from ithaca.engines.corfu.sequencing.rows import NONE
from ithaca.engines.corfu.sequencing.sequencer import (
    Asked,
    AskGrant,
    Began,
    Granted,
    Keep,
    Overdue,
    Reply,
    Sequencer,
)


def begun(*, bound: int = 100, fences: tuple[tuple[int, int], ...] = (), **options: int) -> Sequencer[str]:
    sequencer: Sequencer[str] = Sequencer(grant_rows=10, **options)
    sequencer.step(Began(2, 50, bound, fences, 7))
    return sequencer


def answer(sequencer: Sequencer[str], call: Any, now_us: int = 0) -> Any:
    return sequencer.step(Asked("c", call, now_us))[0].answer  # type: ignore[union-attr]


def rows(sequencer: Sequencer[str], *wants: Want) -> list[int]:
    tokens = answer(sequencer, TakeTokens(2, wants))
    assert isinstance(tokens, Tokens)
    return [token.row for token in tokens.tokens]


def test_says_nothing_before_it_has_begun_and_nothing_of_other_epochs() -> None:
    fresh: Sequencer[str] = Sequencer()
    assert answer(fresh, GetTail(0)) == EpochIs(0, False)
    assert answer(begun(), GetTail(1)) == EpochIs(2, False)
    assert answer(begun(), GetTail(2)) == TailReply(50)


def test_whoever_asks_too_early_is_answered_when_it_begins() -> None:
    sequencer = begun()
    assert sequencer.step(Asked("early", GetTail(3), 0)) == [Keep(1)]
    assert sequencer.step(Asked("late", TakeTokens(3, (Want(1, 1, NONE),)), 9)) == [Keep(2)]
    assert sequencer.step(Asked("too early", GetTail(4), 0)) == [Keep(3)]
    assert sequencer.step(Began(3, 90, 200, (), 7)) == [
        Reply("early", TailReply(90)),
        Reply("late", Tokens((Token(90, 9),))),
    ]
    assert sequencer.step(Overdue(1)) == []
    assert sequencer.step(Overdue(3)) == [Reply("too early", EpochIs(3, False))]


def test_few_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ithaca.engines.corfu.sequencing.sequencer.KEPT_MAX", 1)
    sequencer = begun()
    assert sequencer.step(Asked("a", GetTail(3), 0)) == [Keep(1)]
    assert sequencer.step(Asked("b", GetTail(3), 0)) == [Reply("b", EpochIs(2, False))]


def test_a_session_gets_the_same_row_until_it_says_that_it_is_settled() -> None:
    sequencer = begun()
    assert rows(sequencer, Want(1, 1, NONE), Want(2, 1, NONE)) == [50, 51]
    assert rows(sequencer, Want(1, 1, NONE)) == [50]
    assert rows(sequencer, Want(1, 1, 50)) == [52]
    assert answer(sequencer, GetTail(2)) == TailReply(53)


def test_a_fenced_handle_gets_nothing_and_its_row_is_named() -> None:
    sequencer = begun()
    rows(sequencer, Want(1, 1, NONE))
    assert answer(sequencer, Fence(2, 1, 2)) == SessionFence(50)
    assert rows(sequencer, Want(1, 1, 50)) == [NONE]
    assert rows(sequencer, Want(1, 2, NONE)) == [50], "which is settled by then; the new handle finds that out"
    assert rows(sequencer, Want(1, 2, 50)) == [51]
    assert rows(sequencer, Want(1, 1, 50)) == [NONE]


def test_knows_from_raft_whom_to_fence() -> None:
    sequencer = begun(fences=((1, 3),))
    assert rows(sequencer, Want(1, 2, NONE), Want(1, 3, NONE)) == [NONE, 50]


def test_gives_no_row_beyond_its_bound_and_asks_in_time() -> None:
    sequencer = begun(bound=58)
    effects = sequencer.step(Asked("c", TakeTokens(2, tuple(Want(each, 1, NONE) for each in range(3))), 0))
    assert effects[1:] == [AskGrant(2, 63)]
    assert len(sequencer.step(Asked("c", TakeTokens(2, (Want(9, 1, NONE),)), 0))) == 1, "asked for once"
    assert answer(sequencer, TakeTokens(2, tuple(Want(each, 1, NONE) for each in range(10, 20)))) == NotReady()
    sequencer.step(Granted(1, 1000))
    assert sequencer.bound == 58
    sequencer.step(Granted(2, 70))
    assert rows(sequencer, *(Want(each, 1, NONE) for each in range(10, 20))) == list(range(54, 64))


def test_times_rise_whatever_the_clock_says() -> None:
    sequencer = begun()
    times = [
        answer(sequencer, TakeTokens(2, (Want(each, 1, NONE),)), now_us).tokens[0].time_us
        for each, now_us in enumerate((100, 40, 40, 200))
    ]
    assert times == [100, 101, 102, 200]
    assert Token(50, 8) in answer(begun(), TakeTokens(2, (Want(1, 1, NONE),)), 0).tokens, "above what was sealed"


def test_forgets_sessions_and_says_so() -> None:
    sequencer = begun(sessions_max=2)
    rows(sequencer, *(Want(each, 1, NONE) for each in range(3)))
    assert answer(sequencer, Fence(2, 2, 2)) == SessionFence(52)
    assert answer(sequencer, Fence(2, 0, 2)) == SessionFence(NONE, is_forgotten=True)
    assert answer(sequencer, Fence(2, 7, 2)) == SessionFence(NONE, is_forgotten=True), "no more fences fit either"


def test_begins_again_with_nothing_of_the_epoch_before() -> None:
    sequencer = begun()
    rows(sequencer, Want(1, 1, NONE))
    sequencer.step(Began(3, 200, 300, (), 0))
    sequencer.step(Began(2, 50, 100, (), 0))
    assert (sequencer.epoch, sequencer.next_row, sequencer.bound) == (3, 200, 300)
    assert answer(sequencer, TakeTokens(3, (Want(1, 1, 50),))).tokens[0].row == 200
