"""A speculative task publishes what plain Python would, whatever fails, and its state is that of what was published."""

import asyncio
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ithaca
from ithaca import speculation
from ithaca.model.records import Record
from ithaca.model.speculation import Confirmed, Delivered, Failed, SpeculativeEvent
from ithaca.runtime.checks import check_filter, check_start
from ithaca.speculation import aio, tasks
from ithaca.speculation.flow import check_stop
from ithaca.speculation.tasks import Results
from tests.nonsense import faults
from tests.speculation.scripted import AwaitedScripted, Scripted, delivered, record

Groups = Sequence[Sequence[SpeculativeEvent]]


class Task:
    """A running sum; what it would print is only what was published."""

    def __init__(self, break_at: dict[str, int] | None = None) -> None:
        self.total = 0
        self.seen: list[int] = []
        self.published: list[tuple[int, int]] = []
        self.undone: list[int] = []
        self.break_at = break_at or {}

    def apply(self, record: Record) -> int:
        self._maybe_break("apply", record)
        self.seen.append(record.position)
        before = self.total
        self.total += int(record.value)
        return before

    def undo(self, record: Record, before: int) -> None:
        self._maybe_break("undo", record)
        self.undone.append(record.position)
        self.total = before

    def publish(self, record: Record, before: int) -> None:
        self._maybe_break("publish", record)
        self.published.append((record.position, before + int(record.value)))

    def _maybe_break(self, step: str, record: Record) -> None:
        if self.break_at.get(step) == record.position:
            raise RuntimeError(f"{step} is broken")


def run_waiting(task: Task, groups: Groups, stop: int | None) -> int:
    with Results(Scripted(groups), task.apply, task.undo, stop) as confirmed:
        for found, state in confirmed:
            task.publish(found, state)
        return confirmed.position


def run_awaited(task: Task, groups: Groups, stop: int | None) -> int:
    async def apply(found: Record) -> int:
        return task.apply(found)

    async def undo(found: Record, state: int) -> None:
        task.undo(found, state)

    async def main() -> int:
        async with aio.Results(AwaitedScripted(groups), apply, undo, stop) as confirmed:
            async for found, state in confirmed:
                task.publish(found, state)
            return confirmed.position

    return asyncio.run(main())


Run = Callable[[Task, Groups, int | None], int]
both = pytest.mark.parametrize("run", [run_waiting, run_awaited])


@both
def test_publishes_after_confirmation_alone(run: Run) -> None:
    task = Task()
    assert run(task, [delivered(1, 2), delivered(3), [Confirmed(2)]], None) == 3
    assert task.seen == [1, 2, 3]
    assert task.published == [(1, 1), (2, 3)]
    assert task.undone == [3]
    assert task.total == 3


@both
def test_a_failure_is_undone_newest_first_and_comes_again(run: Run) -> None:
    groups: Groups = [delivered(1, 2, 3), [Confirmed(1), Failed(1)], delivered(3, attempt=1), [Confirmed(3)]]
    task = Task()
    assert run(task, groups, None) == 4
    assert task.undone == [3, 2]
    assert task.published == [(1, 1), (3, 4)]


@both
def test_confirmed_is_published_before_more_is_applied(run: Run) -> None:
    order: list[str] = []

    class Noting(Task):
        def apply(self, record: Record) -> int:
            order.append(f"apply {record.position}")
            return super().apply(record)

        def publish(self, record: Record, before: int) -> None:
            order.append(f"publish {record.position}")

    run(Noting(), [[*delivered(1), Confirmed(1), *delivered(2)]], None)
    assert order == ["apply 1", "publish 1", "apply 2"]


@both
def test_stop_ends_when_all_below_is_final_also_where_nothing_is(run: Run) -> None:
    task = Task()
    assert run(task, [delivered(1, 5), [Confirmed(2)], [Confirmed(5)], delivered(9)], 4) == 6
    assert task.seen == [1]
    assert task.published == [(1, 1)]


@both
@pytest.mark.parametrize("step", ["apply", "publish", "undo"])
def test_what_a_function_raises_leaves_the_state_of_what_was_published(run: Run, step: str) -> None:
    task = Task({step: 3})
    groups = [[*delivered(1, 2, 3), Confirmed(1)], [Confirmed(2), Confirmed(3)] if step == "publish" else [Failed(1)]]
    with pytest.raises((ithaca.TaskFailed, RuntimeError)) as caught:
        run(task, groups, None)
    if step == "publish":
        assert isinstance(caught.value, RuntimeError)
        assert task.published == [(1, 1), (2, 3)]
        assert task.total == 3
        return
    assert isinstance(caught.value, ithaca.TaskFailed)
    assert isinstance(caught.value, ithaca.UndoFailed) == (step == "undo")
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert (caught.value.step, caught.value.position) == (step, 2 if step == "undo" else 1)
    if step == "apply":
        assert task.undone == [2, 1]
        assert task.total == 0
    else:
        assert task.undone == []


class ScriptedLog:
    """A log of which only the speculation is looked at."""

    def __init__(self, told: Scripted) -> None:
        self.told = told

    def speculate(self, start: object = "latest", *, where: object = None) -> Scripted:
        return self.told


def test_run_names_the_publish_that_raised_and_undoes_what_was_not_published() -> None:
    task = Task({"publish": 2})
    told = Scripted([[*delivered(1, 2, 3), Confirmed(3)]])
    log = ScriptedLog(told)
    with pytest.raises(ithaca.TaskFailed, match="publish raised for the record at position 2") as caught:
        speculation.run(log, task.apply, task.undo, task.publish)
    assert (caught.value.position, task.total, told.closed) == (2, 1, 1)
    assert task.undone == [3, 2]


@pytest.mark.parametrize("stop", [0, -1, True, 1.5, "9"])
def test_a_stop_that_is_no_position_is_refused(stop: object) -> None:
    with pytest.raises(ithaca.InvalidInput, match="cannot stop at"):
        check_stop(stop)  # type: ignore[arg-type]


def test_leaving_early_counts_what_was_given_last_as_published() -> None:
    task = Task()
    told = Scripted([[*delivered(1, 2), Confirmed(2)]])
    with Results(told, task.apply, task.undo, None) as confirmed:
        assert next(confirmed)[0].position == 1
    assert (confirmed.position, task.undone, told.closed) == (2, [2], 1)
    with pytest.raises(StopIteration):
        next(confirmed)


@st.composite
def stories(draw: st.DrawFn) -> tuple[list[list[SpeculativeEvent]], list[int]]:
    """What a reader is told in a log of failing attempts, and the positions that are final at its end."""
    events: list[SpeculativeEvent] = []
    final: list[int] = []
    confirmed = attempt = 0
    for _ in range(draw(st.integers(1, 6))):
        gaps = draw(st.lists(st.integers(1, 3), max_size=6))
        ahead = [confirmed + sum(gaps[: number + 1]) for number in range(len(gaps))]
        events += [Delivered(record(at, b"%d" % at), attempt) for at in ahead]
        up_to = draw(st.integers(confirmed, ahead[-1] if ahead else confirmed))
        events.append(Confirmed(up_to))
        final += [at for at in ahead if at <= up_to]
        confirmed, attempt = up_to, attempt + 1
        events.append(Failed(confirmed))
    cuts = sorted(draw(st.lists(st.integers(0, len(events)), max_size=5)))
    groups = [events[low:high] for low, high in zip([0, *cuts], [*cuts, len(events)], strict=True) if low < high]
    return groups, final


@both
@given(story=stories())
def test_the_result_is_that_of_plain_python(run: Run, story: tuple[list[list[SpeculativeEvent]], list[int]]) -> None:
    groups, final = story
    task = Task()
    run(task, groups, None)
    expected = [(at, sum(final[: number + 1])) for number, at in enumerate(final)]
    assert task.published == expected
    assert task.total == sum(final)


async def test_whatever_a_task_is_given_in_place_of_an_argument_it_refuses() -> None:
    class Log:
        def speculate(self, start: object = "latest", *, where: object = None) -> None:
            check_start(start)  # type: ignore[arg-type]
            check_filter(where)  # type: ignore[arg-type]

    usual = {"log": Log(), "apply": len, "undo": len, "publish": len}
    found = [*faults(tasks.run, usual), *faults(tasks.results, usual), *faults(aio.results, usual)]
    assert not found, "\n".join(found)
    with pytest.raises(ithaca.InvalidInput, match="publish is 5: use a function"):
        await aio.run(Log(), len, len, 5)  # type: ignore[arg-type]
