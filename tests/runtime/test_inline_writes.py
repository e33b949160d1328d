"""When a write is waited for in the loop."""

from ithaca.model.limits import INLINE_AVERAGED_GROUPS, INLINE_SYNC_S_MAX
from ithaca.runtime.inline_writes import InlineWrites


def test_a_slow_write_among_quick_ones_changes_nothing() -> None:
    writes = InlineWrites()
    for _ in range(10):
        writes.took(INLINE_SYNC_S_MAX * INLINE_AVERAGED_GROUPS / 2)
        assert writes.are_quick
        for _ in range(2 * INLINE_AVERAGED_GROUPS):
            writes.took(INLINE_SYNC_S_MAX / 10)


def test_a_disk_that_is_slow_is_left_to_its_thread() -> None:
    writes = InlineWrites()
    for _ in range(4 * INLINE_AVERAGED_GROUPS):
        writes.took(2 * INLINE_SYNC_S_MAX)
    assert not writes.are_quick


def test_a_disk_that_stood_still_is_tried_again_once_it_was_quick_for_a_while() -> None:
    writes = InlineWrites()
    writes.took(1.0)
    groups = 0
    while not writes.are_quick:
        groups += 1
        writes.took(0.0)
    assert INLINE_AVERAGED_GROUPS < groups < 10 * INLINE_AVERAGED_GROUPS
