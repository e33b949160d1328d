"""Receipts as futures: a caller that gave up is not the loop's business any more."""

import asyncio
import gc
from typing import Any

import pytest

from ithaca.model.errors import DeadlineExceeded
from ithaca.model.records import Receipt
from ithaca.runtime.futures import within


async def test_what_is_given_up_is_done_and_surprises_nobody() -> None:
    loop = asyncio.get_running_loop()
    heard: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: heard.append(context))
    future: asyncio.Future[Receipt] = loop.create_future()
    with pytest.raises(DeadlineExceeded):
        await within(future, 0.001)
    assert future.done()  # whoever would answer it sees that nobody waits
    await asyncio.sleep(0)
    del future
    gc.collect()
    assert heard == []
