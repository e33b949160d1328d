"""Receipts as futures: a caller that gave up is not the loop's business any more."""

import asyncio
import gc
from typing import Any

import pytest

from ithaca.model.errors import DeadlineExceeded, SessionFenced
from ithaca.model.records import Receipt
from ithaca.runtime.futures import within


async def test_a_failure_after_the_deadline_surprises_nobody() -> None:
    loop = asyncio.get_running_loop()
    heard: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: heard.append(context))
    future: asyncio.Future[Receipt] = loop.create_future()
    with pytest.raises(DeadlineExceeded):
        await within(future, 0.001)
    future.set_exception(SessionFenced("opened again"))
    await asyncio.sleep(0)
    del future
    gc.collect()
    assert heard == []
