"""Whether slots are worth it: in mode `auto` they are while somebody speculates and lanes keep up (SpecLog §6.4)."""

from typing import Literal

from ithaca.engines.belfast.limits import MODE_LATE_PERCENT, MODE_QUIET_S, MODE_RETRY_S
from ithaca.model.config.slots import SlotMode

_QUIET_US = int(MODE_QUIET_S * 1e6)
_RETRY_US = int(MODE_RETRY_S * 1e6)
_CUTS_MIN = 100
"""So many cuts are looked at before they count as late."""


class ModeChoice:
    """What the order is to be, as the leader sees it."""

    def __init__(self, setting: SlotMode) -> None:
        self._setting = setting
        self._speculated_us: int | None = None
        """When somebody speculated last."""
        self._free_until_us = 0
        self._cuts = 0
        self._late = 0

    def ordered(self, cuts: int, late: int, now_us: int) -> None:
        """So many cuts were ordered, of which so many waited for a lane for longer than a cut should take."""
        self._cuts += cuts
        self._late += late
        if self._cuts >= _CUTS_MIN:
            if self._late * 100 >= self._cuts * MODE_LATE_PERCENT:
                self._free_until_us = now_us + _RETRY_US
            self._cuts = self._late = 0

    def choose(self, speculators: int, now_us: int) -> Literal["fixed", "free"]:
        if self._setting != "auto":
            return self._setting
        if speculators:
            self._speculated_us = now_us
        is_quiet = self._speculated_us is None or now_us - self._speculated_us >= _QUIET_US
        return "free" if is_quiet or now_us < self._free_until_us else "fixed"

    def next_look_us(self, now_us: int) -> int | None:
        """When it may be another without anything being told; None if that is not so."""
        if self._setting != "auto" or self._speculated_us is None:
            return None
        times = [self._speculated_us + _QUIET_US, self._free_until_us]
        return min((at_us for at_us in times if at_us > now_us), default=None)
