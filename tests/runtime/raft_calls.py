"""A driver's requests as futures."""

import asyncio
from typing import Any

from ithaca.model.errors import IthacaError
from ithaca.runtime.raft.driver import RaftDriver
from ithaca.runtime.raft.ports import Waiter


def propose(driver: RaftDriver, payload: bytes) -> "asyncio.Future[Any]":
    """The result of applying the entry; `Unavailable` says whether it may be applied all the same."""
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    driver.submit(payload, _waiter(future))
    return future


def read_index(driver: RaftDriver) -> "asyncio.Future[int]":
    """An index that covers all that was committed before this call, once it is applied here."""
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    driver.submit_read(_waiter(future))
    return future


def _waiter(future: "asyncio.Future[Any]") -> Waiter:
    def done(result: object) -> None:
        if not future.done():
            future.set_result(result)

    def failed(error: IthacaError) -> None:
        if not future.done():
            future.set_exception(error)

    return Waiter(done, failed)
