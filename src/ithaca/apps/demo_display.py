"""What one sees of a demo: bars on a terminal, plain lines elsewhere."""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

PLAIN_STEPS = 4
"""Without a terminal, each actor's progress is told so often."""


class Lines:
    """A story on the console: what is said, and figures."""

    def __init__(self) -> None:
        self._console = Console(highlight=False)

    def say(self, text: str) -> None:
        """A line of the story; what moves stays below it."""
        self._console.print(text, markup=False, soft_wrap=True)

    def table(self, title: str, rows: list[tuple[str, str]]) -> None:
        """Figures, one per row."""
        table = Table(title=title, title_justify="left", show_header=False)
        table.add_column()
        table.add_column(justify="right")
        for row in rows:
            table.add_row(*row)
        self._console.print(table)


class Display(Lines):
    """Bars by name, and lines that stay above them."""

    def __init__(self, totals: dict[str, int]) -> None:
        super().__init__()
        self._totals = totals
        self._steps = dict.fromkeys(totals, 0)
        self._progress = Progress(
            TextColumn("{task.description:<12}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._tasks: dict[str, TaskID] = {
            name: self._progress.add_task(name, total=total) for name, total in totals.items()
        }

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._progress.stop()

    def advance(self, name: str, completed: int) -> None:
        """`name` has come to `completed` of its total."""
        self._progress.update(self._tasks[name], completed=completed)
        step = completed * PLAIN_STEPS // self._totals[name]
        if not self._console.is_terminal and step > self._steps[name]:
            self.say(f"{name}: {completed} of {self._totals[name]}")
        self._steps[name] = max(step, self._steps[name])
