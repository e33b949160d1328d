"""What the demo says without a terminal, and that its live view and its picture can be drawn."""

import time
from pathlib import Path

import pytest
from rich.console import Console

from ithaca.apps.demo_pipeline_plot import Picture, draw
from ithaca.apps.demo_pipeline_view import Course, PipelineView


def test_progress_is_told_in_quarters_and_counts_are_kept(capsys: pytest.CaptureFixture[str]) -> None:
    with PipelineView(1000) as view:
        for number in range(10):
            view.appended(100, float(number))
    assert view.appended_course.points[-1] == (9.0, 1000)
    said = capsys.readouterr().out.splitlines()
    assert said == [f"   appended {count:,} of 1,000" for count in (300, 500, 800, 1000)]


def test_a_rate_is_that_of_the_last_seconds() -> None:
    course = Course(1000)
    now = time.monotonic()
    course.add(600, now - 60)
    course.add(50, now)
    assert course.rate() == 10
    assert course.done == 650


def test_the_live_view_shows_counts_and_lag() -> None:
    view = PipelineView(1000)
    view.appended(400, time.monotonic())
    console = Console(width=120, record=True, file=None, quiet=False)
    with console.capture() as capture:
        console.print(view._render())
    text = capture.get()
    assert "400 of 1,000" in text
    assert "lag: 400 records" in text


def test_a_picture_is_a_png(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = Picture([(5.0, 10), (6.0, 20)], [(6.5, 20)], 5.5, [(0, 3, 2, 500), (1, 4, 2, 700)])
    draw(picture, tmp_path / "new" / "picture.png")
    assert (tmp_path / "new" / "picture.png").read_bytes().startswith(b"\x89PNG")
