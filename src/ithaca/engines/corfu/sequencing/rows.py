"""Rows and positions: the only conversions between them.

Row r, counted from 0, has the positions `[r * 1048576 + 1, (r + 1) * 1048576]`. Its batch stands at the start, and the
positions behind that are empty for ever.
"""

from typing import NewType

from ithaca.engines.corfu.sequencing.limits import ROW_POSITIONS

Row = NewType("Row", int)

NONE = Row(-1)
"""Before the first row."""


def row_of(position: int) -> Row:
    """The row that has this position.

    >>> row_of(1), row_of(1048576), row_of(1048577)
    (0, 0, 1)
    """
    return Row((position - 1) // ROW_POSITIONS)


def first_position(row: int) -> int:
    """Where a row's batch starts.

    >>> first_position(0), first_position(1)
    (1, 1048577)
    """
    return row * ROW_POSITIONS + 1
