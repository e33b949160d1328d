"""How many records stretches of a range hold."""

from ithaca.client.extents import Extent, dense_extents


def test_a_dense_range_is_divided_by_arithmetic() -> None:
    assert dense_extents(1, 8, 3) == [Extent(1, 4, 3), Extent(4, 7, 3), Extent(7, 8, 1)]
    assert dense_extents(1, 8, 3, count_max=2) == [Extent(1, 4, 3), Extent(4, 7, 3)]
    assert dense_extents(5, 6, 100) == [Extent(5, 6, 1)]
    assert dense_extents(5, 5, 100) == []
