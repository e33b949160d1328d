"""When a write is waited for in the loop."""

from ithaca.model.limits import INLINE_PAUSE_GROUPS, INLINE_SYNC_S_MAX
from ithaca.runtime.patient_disk import Patience


def test_a_slow_write_sends_the_next_ones_to_the_thread() -> None:
    patience = Patience()
    patience.took(INLINE_SYNC_S_MAX)
    assert patience.waits
    patience.took(2 * INLINE_SYNC_S_MAX)
    for _ in range(INLINE_PAUSE_GROUPS):
        assert not patience.waits
        patience.took(INLINE_SYNC_S_MAX / 2)
    assert patience.waits


def test_a_slow_write_begins_the_pause_anew() -> None:
    patience = Patience()
    patience.took(2 * INLINE_SYNC_S_MAX)
    for _ in range(INLINE_PAUSE_GROUPS - 1):
        patience.took(0)
    patience.took(2 * INLINE_SYNC_S_MAX)
    for _ in range(INLINE_PAUSE_GROUPS):
        assert not patience.waits
        patience.took(0)
    assert patience.waits
