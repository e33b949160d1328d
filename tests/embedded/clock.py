"""Time as tests of a directory want it."""

from ithaca.runtime import machine


class Clock(machine.Machine):
    """A machine whose clock can be set, and on which time also passes when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead_s = 0.0
        self.passed_s = 0.0

    def wall_us(self) -> int:
        return super().wall_us() + int((self.ahead_s + self.passed_s) * 1e6)

    def monotonic_ns(self) -> int:
        return super().monotonic_ns() + int(self.passed_s * 1e9)
