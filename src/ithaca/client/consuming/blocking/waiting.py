"""What pauses, in a thread. `awaited.waiting` has the same name for loops."""

import time


def pause(seconds: float) -> None:
    """So long, while there is nothing to wait for."""
    time.sleep(seconds)
