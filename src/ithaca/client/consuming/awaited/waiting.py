"""What pauses, in a loop. `blocking.waiting` has the same name for threads."""

import asyncio


async def pause(seconds: float) -> None:
    """So long, while there is nothing to wait for."""
    await asyncio.sleep(seconds)
