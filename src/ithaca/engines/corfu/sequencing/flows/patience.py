"""How long somebody is waited for before the epoch is ended without it."""

from ithaca.engines.corfu.sequencing.flows.flow import NoAnswer, Pause
from ithaca.engines.corfu.sequencing.limits import RETRY_MS, RETRY_MS_MAX


class Patience:
    """Each pause is twice the one before.

    Whoever is silent is waited for `silent_ms`. Where nobody listens any more, as the kernel of that machine says, the
    process is gone, and only the time in which it may be started again is waited for: `gone_ms`.
    """

    def __init__(self, silent_ms: int, gone_ms: int) -> None:
        self._silent_ms = silent_ms
        self._gone_ms = gone_ms
        self._is_gone = False
        self._pause_ms = RETRY_MS

    @property
    def is_over(self) -> bool:
        return self._silent_ms <= 0 or (self._is_gone and self._gone_ms <= 0)

    def pause(self, unanswered: NoAnswer) -> Pause:
        """What to do next after this came of asking."""
        pause = Pause(self._pause_ms)
        spent_ms = unanswered.ms + self._pause_ms
        self._silent_ms -= spent_ms
        self._is_gone = unanswered.is_refused
        if unanswered.is_refused:
            self._gone_ms -= spent_ms
        self._pause_ms = min(2 * self._pause_ms, RETRY_MS_MAX)
        return pause
