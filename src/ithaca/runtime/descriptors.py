"""What of the files that this process may open goes to lanes."""

from ithaca.model.limits import DESCRIPTORS_PER_LANE, LANES_OPEN_MAX
from ithaca.runtime.machine import descriptors_max


def lanes_open_max() -> int:
    """Lanes whose files may stay open although nobody writes them: a quarter of all descriptors at most."""
    return max(1, min(LANES_OPEN_MAX, descriptors_max() // 4 // DESCRIPTORS_PER_LANE))
