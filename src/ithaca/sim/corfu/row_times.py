"""The times of the order of this engine: they come with rows, and some rows hold nothing."""

from bisect import bisect_left

from ithaca.engines.corfu.sequencing.rows import first_position
from ithaca.sim.rules.order_times import OrderTimes


class RowTimes(OrderTimes):
    """Grows with every row that a sequencer gives away, and knows which of them have a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.given: dict[int, int] = {}
        """Rows that were given away, and their times."""
        self.stop = 0
        """The row behind all that were given away."""
        self._rows: list[int] = []
        """Those that have a batch, and beside them, their times."""
        self._row_times_us: list[int] = []

    def gave(self, row: int, time_us: int) -> None:
        """A row was given away for the first time; a sequencer whose time is over may do so late."""
        self.given[row] = time_us
        self.stop = max(self.stop, row + 1)
        self.add(first_position(row + 1), time_us, self.first)

    def wrote_first(self, row: int, time_us: int) -> None:
        """A unit has a batch in a row. If nobody gave it away, whoever wrote it has chosen its time."""
        if row not in self.given:
            self.gave(row, time_us)

    def wrote(self, row: int) -> str | None:
        """A row has a batch, for ever; says what is wrong with that. Times rise with the rows that have one."""
        time_us, at = self.given[row], bisect_left(self._rows, row)
        if at and self._row_times_us[at - 1] >= time_us:
            return f"row {row} has the time {time_us}, and row {self._rows[at - 1]} {self._row_times_us[at - 1]}"
        if at < len(self._rows) and self._row_times_us[at] <= time_us:
            return f"row {row} has the time {time_us}, and row {self._rows[at]} {self._row_times_us[at]}"
        self._rows.insert(at, row)
        self._row_times_us.insert(at, time_us)
        return None

    def problem(self, time_us: int, start: int, tail_before: int, trimmed: int) -> str | None:
        """As for every order, but only rows with a batch count."""
        at = bisect_left(self._row_times_us, time_us)
        said = f"a subscription from the time {time_us} on began at {start}"
        older = [row for row in self._rows[:at] if start <= first_position(row) < tail_before]
        if older:
            return f"{said}, before row {older[0]}, which is older"
        newer = [row for row in self._rows[at:] if trimmed <= first_position(row) < start]
        return f"{said}, behind row {newer[0]}, which is not older" if newer else None
