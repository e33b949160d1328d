"""A client that speculates: it is given records before their places are final, told which are, and told what fails.

What it writes down is judged by the rules of speculative deliveries (`proof.speculation`). It begins anew every now and
then, behind what was confirmed to it, as a program does that starts again.
"""

import asyncio
import time
from itertools import count

from ithaca.model.errors import IthacaError, Trimmed
from ithaca.model.interface.awaited import ClusterLog, Speculation
from ithaca.model.speculation import Confirmed, Delivered, Failed, SpeculativeEvent
from ithaca.proof.history import Confirm, Fail, HistoryWriter, Spec, Sub
from ithaca.torture.clients.client import RETRY_S, Client, passes
from ithaca.torture.clients.readers import POLL_S, SUBSCRIPTIONS
from ithaca.torture.sightings import seen

ANEW_S = 10.0
"""It begins anew after so long."""


async def speculate(client: Client) -> None:
    """Have all records delivered and confirmed, from the first on."""
    log = await client.connected()
    numbers = count(client.errand.number * SUBSCRIPTIONS)
    start, is_done = 1, False
    while not is_done:
        invoked = time.monotonic_ns()
        try:
            async with log.speculate(start) as speculation:
                told = Told(client.history, next(numbers), start, invoked)
                try:
                    is_done = await _listen(client, speculation, told)
                finally:
                    start = told.confirmed + 1
        except Trimmed:
            start = await _first(log, start)
        except IthacaError as error:
            if not passes(error):
                raise
            await asyncio.sleep(RETRY_S)
    await log.close()


async def _listen(client: Client, speculation: Speculation, told: "Told") -> bool:
    """Take what comes, for a while; whether everything below the tail is confirmed."""
    deadline = time.monotonic() + ANEW_S
    while time.monotonic() < deadline or client.is_finishing:
        events = await speculation.take(POLL_S)
        for event in events:
            told.take(event)
        client.count(sum(isinstance(event, Delivered) for event in events))
        if client.finish is not None and told.confirmed >= client.finish.tail - 1:
            return True
    return False


async def _first(log: ClusterLog, start: int) -> int:
    """Where to go on when what comes next was trimmed."""
    try:
        return max(start, await log.first())
    except IthacaError as error:
        if not passes(error):
            raise
        await asyncio.sleep(RETRY_S)
        return start


class Told:
    """What one speculation was told, in the lines of a history; what no speculator may be told ends the client."""

    def __init__(self, history: HistoryWriter, number: int, start: int, invoked: int) -> None:
        self._history = history
        self._number = number
        self.confirmed = start - 1
        """All up to here is final."""
        self._attempt = 0
        self._next = start
        history.write(Sub(number, start, None, invoked, time.monotonic_ns()))

    def take(self, event: SpeculativeEvent) -> None:
        """Write down what was told."""
        now, number = time.monotonic_ns(), self._number
        match event:
            case Delivered(record, attempt):
                position, found = seen(record)[:2]
                assert position >= self._next, f"position {position} is delivered behind {self._next}"
                self._next, self._attempt = position + 1, attempt
                self._history.write(Spec(number, now, position, found, attempt))
            case Confirmed(up_to):
                assert up_to > self.confirmed, f"{up_to} is confirmed behind {self.confirmed}"
                self._history.write(Confirm(number, now, self.confirmed + 1, up_to, self._attempt))
                self.confirmed = up_to
                self._next = max(self._next, up_to + 1)
            case Failed(after):
                assert after >= self.confirmed, f"{after} is the last that counts, and {self.confirmed} was confirmed"
                self._history.write(Fail(number, now, after + 1, self._attempt))
                self._next = after + 1
                self._attempt += 1  # or a later one, as what is delivered next says
