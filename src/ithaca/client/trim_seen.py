"""A trim is done when every server that answers knows of it: no reader is shown afterwards what was trimmed."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from ithaca.client.deadline import Deadline
from ithaca.model.errors import IthacaError
from ithaca.model.limits import TRIM_SEEN_TIMEOUT_S
from ithaca.model.view import Address
from ithaca.runtime.backoff import Backoff

ReadTrimmed = Callable[[Address, Deadline], Awaitable[object]]
"""Asks a server for the last record that was trimmed."""


async def trim_seen(addresses: Iterable[Address], read: ReadTrimmed) -> None:
    """Wait until none of these servers shows it any more, but not for ever."""
    await asyncio.gather(*(_seen_by(address, read) for address in addresses))


async def _seen_by(address: Address, read: ReadTrimmed) -> None:
    deadline, pauses = Deadline(TRIM_SEEN_TIMEOUT_S), Backoff()
    while not deadline.passed:
        try:
            await read(address, deadline)
        except IthacaError:
            return  # it knows; or it cannot be reached, or has a trouble of its own, and learns of it before it serves
        await pauses.pause(deadline)
