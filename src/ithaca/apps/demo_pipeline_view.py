"""What one sees of the pipeline demo: a live view on a terminal, plain lines elsewhere."""

import time
from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from ithaca.apps.demo_display import PLAIN_STEPS, Lines

if TYPE_CHECKING:
    from ithaca.apps.fraud.plain import Alert
    from ithaca.apps.fraud.stream import Judged

ALERTS_SHOWN = 5
RATE_S = 5.0
"""Throughput is that of the last seconds."""
BAR_WIDTH = 40


class Course:
    """A count that grows, and when it did."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.points: list[tuple[float, int]] = []

    @property
    def done(self) -> int:
        return self.points[-1][1] if self.points else 0

    def add(self, count: int, at_s: float) -> None:
        self.points.append((at_s, self.done + count))

    def rate(self) -> float:
        """Per second, of late."""
        now = time.monotonic()
        before = next((count for when, count in reversed(self.points) if when < now - RATE_S), 0)
        return (self.done - before) / RATE_S

    def step(self) -> int:
        return self.done * PLAIN_STEPS // self.total


class PipelineView(Lines):
    """Told by the story what was appended, and by Spark's thread what was judged."""

    def __init__(self, total: int) -> None:
        super().__init__()
        self.appended_course, self.judged_course = Course(total), Course(total)
        self.batches: list[Judged] = []
        self._last: deque[Alert] = deque(maxlen=ALERTS_SHOWN)
        self._alerts = 0
        self._live = Live(get_renderable=self._render, console=self._console, refresh_per_second=4, transient=True)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._live.stop()

    def appended(self, count: int, at_s: float) -> None:
        """So many more payments are in the log, since `at_s`."""
        self._grow(self.appended_course, count, at_s, "appended")

    def judged(self, batch: "Judged") -> None:
        """Spark is done with a micro-batch."""
        self.batches.append(batch)
        self._last.extend(batch.alerts)
        self._alerts += len(batch.alerts)
        self._grow(self.judged_course, batch.records, time.monotonic(), "judged")

    def _grow(self, course: Course, count: int, at_s: float, what: str) -> None:
        before = course.step()
        course.add(count, at_s)
        if course.step() > before and not self._console.is_terminal:
            alerts = f", {self._alerts} alerts" if what == "judged" else ""
            self.say(f"   {what} {course.done:,} of {course.total:,}{alerts}")

    # The live view

    def _render(self) -> RenderableType:
        bars = Table.grid(padding=(0, 2))
        for name, course in (("appended", self.appended_course), ("judged", self.judged_course)):
            bar = ProgressBar(total=course.total, completed=course.done, width=BAR_WIDTH)
            bars.add_row(name, bar, f"{course.done:,} of {course.total:,}", f"{course.rate():,.0f} records/s")
        return Group(bars, self._lag(), self._newest())

    def _lag(self) -> str:
        behind = self.appended_course.done - self.judged_course.done
        delay = f", {self.batches[-1].lag_s:.1f} s at micro-batch {self.batches[-1].batch}" if self.batches else ""
        return f"lag: {max(0, behind):,} records{delay}    alerts: {self._alerts:,}"

    def _newest(self) -> Table:
        table = Table("position", "user", "cents", "country", "alert", box=None, padding=(0, 2), title_justify="left")
        for alert in list(self._last):
            table.add_row(*map(str, alert))
        return table
