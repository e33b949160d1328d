"""The checker against a search over all linearizations, on small histories with right and wrong answers."""

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.proof.linearizations import Log, Operation, is_linearizable

from ithaca.proof.checker import check
from ithaca.proof.history import Append, Final, Id, Read, Tail

TIME_MAX = 9


@st.composite
def intervals(draw: st.DrawFn) -> tuple[int, int]:
    inv = draw(st.integers(0, TIME_MAX))
    return inv, draw(st.integers(inv, TIME_MAX))


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Operation], Log]:
    """Up to seven operations and a final log that they may have led to.

    Mostly what is said is what the final log says; times are arbitrary, so that some are right and some wrong.
    """
    outcomes = draw(st.lists(st.sampled_from(["ok", "ok", "ok", "info", "fail"]), min_size=1, max_size=4))
    sizes = [draw(st.sampled_from([1, 1, 2, 3])) for _ in outcomes]
    batches: list[tuple[Id, ...]] = [
        tuple((session, 10 + row) for row in range(size)) for session, size in enumerate(sizes)
    ]
    there = [
        session
        for session in draw(st.permutations(range(len(batches))))
        if outcomes[session] == "ok" or (outcomes[session] == "info" and draw(st.booleans()))
    ]
    final: list[Id] = [record for session in there for record in batches[session]]
    if draw(_rarely()) and len(final) > 1:
        final = draw(st.permutations(final))
    if draw(_rarely()) and final:
        final.pop(draw(st.integers(0, len(final) - 1)))
    operations: list[Operation] = []
    for session, outcome in enumerate(outcomes):
        inv, ret = draw(intervals())
        position = None
        if outcome == "ok":
            position = final.index(batches[session][0]) + 1 if batches[session][0] in final else 1
            position = draw(st.integers(1, len(final) + 1)) if draw(_rarely()) else position
        operations.append(
            Append(id=batches[session][0], n=sizes[session], inv=inv, ret=ret, st=outcome, pos=position)  # type: ignore[arg-type]
        )
    for _ in range(draw(st.integers(0, 7 - len(operations)))):
        operations.append(draw(_observation(final)))
    return operations, tuple(final)


def _rarely() -> st.SearchStrategy[bool]:
    return st.sampled_from([False] * 15 + [True])


@st.composite
def _observation(draw: st.DrawFn, final: list[Id]) -> Read | Tail:
    inv, ret = draw(intervals())
    if draw(st.booleans()):
        return Tail(inv=inv, ret=ret, n=draw(st.integers(1, len(final) + 1 + draw(_rarely()))))
    position = draw(st.integers(1, len(final) + 1))
    found: Any = final[position - 1] if position <= len(final) else None
    if draw(st.booleans()):
        found = None
    elif draw(_rarely()) and final:
        found = draw(st.sampled_from(final))
    return Read(pos=position, inv=inv, ret=ret, id=found)


def accepts(operations: list[Operation], final: Log) -> bool:
    verdict = check([*operations, Final(node="a", runs=((1, final),))])
    assert verdict.no_verdict is None
    return verdict.ok


@settings(max_examples=600)
@given(histories())
def test_the_checker_agrees_with_the_search(history: tuple[list[Operation], Log]) -> None:
    operations, final = history
    assert accepts(operations, final) == is_linearizable(operations, final)


def test_the_comparison_sees_right_and_wrong_histories() -> None:
    seen: Counter[bool] = Counter()

    @settings(max_examples=300, database=None)
    @given(histories())
    def count(history: tuple[list[Operation], Log]) -> None:
        seen[is_linearizable(*history)] += 1

    count()
    assert min(seen[True], seen[False]) > 50, seen


def test_an_operation_that_returns_as_another_begins_does_not_precede_it() -> None:
    first = Append(id=(0, 10), n=1, inv=1, ret=5, st="ok", pos=2)
    second = Append(id=(1, 10), n=1, inv=5, ret=7, st="ok", pos=1)
    final: Log = ((1, 10), (0, 10))
    assert is_linearizable([first, second], final)
    assert accepts([first, second], final)


def test_a_batch_of_unknown_outcome_has_lost_its_beginning() -> None:
    batch = Append(id=(0, 10), n=2, inv=0, ret=9, st="info")
    assert not is_linearizable([batch], ((0, 11),))
    assert not accepts([batch], ((0, 11),))


def test_a_batch_appears_at_once() -> None:
    batch = Append(id=(0, 10), n=2, inv=0, ret=9, st="ok", pos=1)
    first = Read(pos=1, inv=2, ret=3, id=(0, 10))
    second = Read(pos=2, inv=4, ret=5, id=None)
    final: Log = ((0, 10), (0, 11))
    assert not is_linearizable([batch, first, second], final)
    assert not accepts([batch, first, second], final)
