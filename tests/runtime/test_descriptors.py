"""A server whose process has no descriptors left goes on, and takes connections again when there are some."""

import asyncio
import contextlib
import resource
import subprocess
import sys
from collections.abc import Iterator

import pytest
from tests.runtime.echo import HELLO, Recorder
from tests.runtime.few_descriptors import DESCRIPTORS

from ithaca.model.errors import Unavailable
from ithaca.model.limits import CONNECTIONS_MAX
from ithaca.model.view import Address
from ithaca.protocol.greeting import GetStatus, StatusIs
from ithaca.runtime.admission import capacity_of
from ithaca.runtime.connection import Connection
from ithaca.runtime.dialling import dial
from ithaca.runtime.machine import descriptors_max


@pytest.fixture(params=["asyncio", "uvloop"])
def address(request: pytest.FixtureRequest) -> Iterator[Address]:
    command = [sys.executable, "-m", "tests.runtime.few_descriptors", request.param]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        yield Address("127.0.0.1", int(server.stdout.readline()))
        assert server.poll() is None, "it lives"
        server.stdin.close()
        assert server.wait() == 0


async def test_running_out_of_descriptors_hurts_only_those_who_come_then(address: Address) -> None:
    admitted: list[Connection] = []

    async def come() -> None:
        with contextlib.suppress(Unavailable):
            admitted.append(await dial(address, HELLO, Recorder(), timeout=5))

    await asyncio.gather(*(come() for _ in range(2 * DESCRIPTORS)))
    assert 0 < len(admitted) < DESCRIPTORS
    for connection in admitted:
        assert (await connection.request(GetStatus())).message == StatusIs(b"{}")
    for connection in admitted:
        connection.close()
        await connection.wait_lost()
    while True:  # asyncio's own loop looks again after a second
        try:
            again = await dial(address, HELLO, Recorder())
            break
        except Unavailable:
            pass
    assert (await again.request(GetStatus())).message == StatusIs(b"{}")
    again.abort()
    await again.wait_lost()


@pytest.mark.parametrize("descriptors", [1, 2, 16, 64, 256, 1024, 4096, 8831, 8832, 1 << 20])
def test_connections_take_at_most_half_of_the_descriptors(descriptors: int) -> None:
    capacity = capacity_of(descriptors)
    held = capacity.connections + capacity.greetings + capacity.lingering
    assert held <= max(3, descriptors // 2)
    assert capacity.connections <= CONNECTIONS_MAX
    assert (capacity.connections == CONNECTIONS_MAX) == (descriptors >= 8831)
    assert 0 < capacity.clients <= capacity.connections


def test_what_the_process_may_open_is_what_the_system_says() -> None:
    assert descriptors_max() == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
