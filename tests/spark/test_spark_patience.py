"""A stream that was too slow to start is started again and said; every other failure is raised as it is."""

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

from ithaca.apps.pipelines.patience import STARTS_MAX, PatientQuery

SLOW = StreamingQueryException("Python worker failed to connect back.")
OTHER = StreamingQueryException("the source is gone")


class Scripted(StreamingQuery):
    """A query that ends as it is told: how slow a process of Spark's is cannot be chosen."""

    def __init__(self, failure: StreamingQueryException | None) -> None:
        self._failure = failure
        self.stopped = False

    def exception(self) -> StreamingQueryException | None:
        return self._failure

    def processAllAvailable(self) -> None:  # noqa: N802 (Spark's name)
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        self.stopped = True


def patient(*failures: StreamingQueryException | None) -> tuple[PatientQuery, list[Scripted], list[str]]:
    left, started, said = list(failures), list[Scripted](), list[str]()

    def start() -> Scripted:
        started.append(Scripted(left.pop(0)))
        return started[-1]

    return PatientQuery(start, said.append), started, said


def test_a_slow_start_is_repeated_and_said() -> None:
    query, started, said = patient(SLOW, SLOW, None)
    with query:
        query.check()
        query.process_all()
    assert len(started) == 3
    assert len(said) == 2
    assert "goes on from its checkpoint" in said[0]
    assert started[-1].stopped


def test_it_is_not_repeated_for_ever() -> None:
    query, started, _ = patient(*[SLOW] * (STARTS_MAX + 1))
    with query, pytest.raises(StreamingQueryException, match="connect back"):
        query.process_all()
    assert len(started) == STARTS_MAX


@pytest.mark.parametrize("step", ["check", "process_all"])
def test_another_failure_is_raised(step: str) -> None:
    query, started, said = patient(OTHER, None)
    with query, pytest.raises(StreamingQueryException, match="the source is gone"):
        getattr(query, step)()
    assert (len(started), said) == (1, [])
