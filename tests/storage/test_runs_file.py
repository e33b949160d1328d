"""The `runs` file by itself: what its parts say, and that they say it together."""

import pytest

from ithaca.engines.scalog.storage.limits import RUNS_FILE_PAGES
from ithaca.engines.scalog.storage.runs_file import RunsFile
from ithaca.engines.scalog.storage.runs_format import FOLLOWING, Columns, Run, encode_runs, parse_runs
from ithaca.model.errors import Corrupt
from ithaca.sim.disk import SimDisk

PAGE = 2
NUMBER_MAX = 1 << 62


def stored(*runs: Run, end_lsn: int) -> SimDisk:
    """A disk with a file that says this, every checksum right."""
    disk = SimDisk()
    disk.make_directory("/lane")
    RunsFile(disk, "/lane", PAGE).store(0, runs, 0, end_lsn)
    return disk


def test_what_is_stored_comes_back() -> None:
    runs = (Run(0, 1, 3, 5), Run(3, 9, 1, 5), Run(4, 10, 2, 6))
    again = RunsFile(stored(*runs, end_lsn=6), "/lane", PAGE)
    assert (again.last.pages, again.last.tail, again.last.end_lsn) == (1, runs[PAGE:], 6)
    assert again.load_page(0).T.tolist() == [list(run) for run in runs[:PAGE]]
    assert again.heads().tolist() == [[0], [1], [5]]


def test_the_newest_runs_stay_in_the_slot_until_there_are_more_than_a_page() -> None:
    runs = (Run(0, 1, 3, 5), Run(3, 9, 1, 5))
    again = RunsFile(stored(*runs, end_lsn=4), "/lane", PAGE)
    assert (again.last.pages, again.last.tail) == (0, runs)


@pytest.mark.parametrize(
    ("runs", "end_lsn"),
    [
        pytest.param([Run(0, 1, 3, 5)], 4, id="they end before the end"),
        pytest.param([Run(0, 1, 3, 5)], 2, id="they end behind the end"),
        pytest.param([Run(0, 1, 3, 5), Run(4, 9, 1, 5)], 5, id="an LSN is missing"),
        pytest.param([Run(0, 5, 3, 5), Run(3, 7, 1, 5)], 4, id="a position comes twice"),
        pytest.param([Run(0, 1, 3, 5), Run(3, 9, 1, 4)], 4, id="time falls"),
        pytest.param([Run(0, 1, 0, 5)], 0, id="nothing counts as a run"),
        pytest.param([Run(-1, 1, 3, 5)], 2, id="below the first"),
    ],
)
def test_runs_that_cannot_be_of_one_lane_are_damage(runs: list[Run], end_lsn: int) -> None:
    disk = stored(*runs, end_lsn=end_lsn)
    with pytest.raises(Corrupt, match="generation"):
        RunsFile(disk, "/lane", PAGE)


def test_runs_may_follow_each_other_without_a_gap_and_at_one_time() -> None:
    runs = (Run(0, 1, 3, 5), Run(3, 4, 1, 5))
    assert RunsFile(stored(*runs, end_lsn=4), "/lane", PAGE).last.tail == runs


def test_a_file_with_pages_of_another_size_is_refused() -> None:
    with pytest.raises(Corrupt, match="pages hold 2 runs, not 3") as error:
        RunsFile(stored(end_lsn=0), "/lane", PAGE + 1)
    assert error.value.offset == 12


def test_opening_takes_no_longer_however_many_files_are_said_to_be_dead() -> None:
    disk = stored(end_lsn=0)
    pages = RUNS_FILE_PAGES << 40
    file = RunsFile(disk, "/lane", PAGE)
    file.store(pages, [], dead_pages=pages, end_lsn=0)
    opened = RunsFile(disk, "/lane", PAGE)
    assert opened.last.dead_pages == pages


@pytest.mark.parametrize("column", range(FOLLOWING))
def test_numbers_end_where_they_are_said_to(column: int) -> None:
    """The greatest is one that may be, and the next one is damage."""
    greatest = {0: Run(NUMBER_MAX, 1, 1, 5), 1: Run(0, NUMBER_MAX, 1, 5), 2: Run(0, 1, NUMBER_MAX, 5)}
    greatest |= {3: Run(0, 1, 1, NUMBER_MAX), 4: Run(0, NUMBER_MAX, 1, 5, NUMBER_MAX)}
    assert read_back(greatest[column]) is not None
    beyond = list(greatest[column])
    beyond[column] += 1
    assert read_back(Run(*beyond)) is None


def read_back(run: Run) -> Columns | None:
    return parse_runs(encode_runs([run], FOLLOWING), FOLLOWING)
