"""NATS JetStream: three servers, a stream with three copies, through its Python client."""

import asyncio
import os
import shutil
import subprocess
import time
from collections.abc import Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import numpy as np

from ithaca.bench.cluster.producers import Counted, Turn
from ithaca.bench.compare.system import Running, System, needed
from ithaca.bench.compare.work import DRAIN_S, Client, Fill, Filled, Pace, Role, evenly
from ithaca.bench.foreign import foreign_server
from ithaca.bench.measure import Progress
from ithaca.cluster.ports import LOOPBACK, free_ports
from ithaca.model.errors import Unavailable
from ithaca.model.limits import MIB

MODULE: Final = "github.com/nats-io/nats-server/v2"
VERSION: Final = "v2.15.2"
STREAM: Final = "bench"
SERVERS: Final = 3
FETCH: Final = 500
FILL_IN_FLIGHT: Final = 256
BUILD_TIMEOUT_S: Final = 900.0
WAIT_S: Final = 30.0

Result = TypeVar("Result")


class NatsClient(Client):
    """Its client is awaited; a turn runs in a loop of its own. A batch is as many messages, as there are no batches."""

    def __init__(self, servers: list[str], role: Role) -> None:
        self._nats = needed("nats", "nats-py")
        self._loop = asyncio.new_event_loop()
        self._connection: Any = self._run(self._nats.connect(servers=servers))
        self._stream = self._connection.jetstream(timeout=WAIT_S, publish_async_max_pending=100_000)

    def append(self, turn: Turn, values: list[list[bytes]]) -> Counted:
        return self._run(self._append(turn, values))

    async def _append(self, turn: Turn, values: list[list[bytes]]) -> Counted:
        durations: list[float] = []
        await asyncio.sleep(max(0.0, turn.start_s - time.monotonic()))

        async def one_after_the_other(number: int) -> None:
            while (began := time.monotonic()) < turn.stop_s:
                await self._publish(values[number % len(values)])
                if (now := time.monotonic()) <= turn.stop_s:
                    durations.append(now - began)

        await asyncio.gather(*(one_after_the_other(number) for number in range(turn.plan.window)))
        return Counted(np.asarray(durations).tobytes(), turn.stop_s)

    def pace(self, pace: Pace, values: list[list[bytes]]) -> Counted:
        return self._run(self._pace(pace, values))

    async def _pace(self, pace: Pace, values: list[list[bytes]]) -> Counted:
        durations: list[float] = []

        async def one(batch: list[bytes], due_s: float) -> None:
            await self._publish(batch)
            durations.append(time.monotonic() - due_s)

        async with asyncio.timeout(pace.turn.stop_s - time.monotonic() + DRAIN_S), asyncio.TaskGroup() as group:
            due_s, sent = pace.turn.start_s, 0
            while due_s < pace.turn.stop_s:
                await asyncio.sleep(max(0.0, due_s - time.monotonic()))
                group.create_task(one(values[sent % len(values)], due_s))
                sent += 1
                due_s = pace.turn.start_s + sent / pace.batches_per_s
        return Counted(np.asarray(durations).tobytes(), pace.turn.stop_s)

    def fill(self, fill: Fill, values: list[list[bytes]]) -> Filled:
        return self._run(self._fill(fill, values))

    async def _fill(self, fill: Fill, values: list[list[bytes]]) -> Filled:
        places: list[int] = []
        flat = [value for batch in values for value in batch]
        for begun in range(0, fill.records, FILL_IN_FLIGHT):
            some = [flat[number % len(flat)] for number in range(begun, min(begun + FILL_IN_FLIGHT, fill.records))]
            places.extend(each.seq for each in await asyncio.gather(*map(self._publish_one, some)))
        return Filled(len(places), fill.record_bytes, min(places), evenly(sorted(places)))

    def read_all(self, filled: Filled) -> int:
        return self._run(self._read_all(filled))

    async def _read_all(self, filled: Filled) -> int:
        config = self._nats.js.api.ConsumerConfig(
            deliver_policy=self._nats.js.api.DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=filled.start,
            ack_policy=self._nats.js.api.AckPolicy.NONE,
        )
        pulling = await self._stream.pull_subscribe(STREAM, config=config)
        records = 0
        while records < filled.records:
            messages = await pulling.fetch(min(FETCH, filled.records - records), timeout=WAIT_S)
            records += sum(1 for message in messages if message.data)
        await pulling.unsubscribe()
        return records

    def read_one(self, filled: Filled, place: Any) -> int:
        message = self._run(self._stream.get_msg(STREAM, seq=place, direct=True))
        return len(message.data)

    def close(self) -> None:
        self._run(self._connection.close())
        self._loop.close()

    async def _publish(self, batch: list[bytes]) -> None:
        if len(batch) == 1:
            await self._publish_one(batch[0])
        else:
            await asyncio.gather(*map(self._publish_one, batch))

    async def _publish_one(self, value: bytes) -> Any:
        return await self._stream.publish(STREAM, value)

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self._loop.run_until_complete(work)


class Nats(System):
    """Three servers; a stream with three copies, synced with each message or every two minutes, as is the default."""

    copies = 2
    order = "per stream"

    def __init__(self, durable: Literal["synced", "page cache"]) -> None:
        self.name = "nats" if durable == "synced" else "nats, page cache"
        self.durable = durable
        self.acknowledged = (
            "synced to the disks of two of three servers"
            if durable == "synced"
            else "in the page caches of two of three servers, synced every two minutes"
        )

    @contextmanager
    def run(self, directory: Path, progress: Progress) -> Iterator[Running]:
        nats = needed("nats", "nats-py")
        progress("building the NATS server, from the Go module proxy unless it was before")
        program = built_server()
        directory.mkdir(mode=0o700, parents=True)
        ports, routes = free_ports(SERVERS), free_ports(SERVERS)
        with ExitStack() as stack:
            processes = []
            for number in range(SERVERS):
                file = directory / f"{number}.conf"
                file.write_text(self._configuration(directory, number, ports, routes))
                command = [str(program), "--config", str(file)]
                output = directory / f"{number}.txt"
                processes.append(stack.enter_context(foreign_server("NATS", command, output, ports[number])))
            servers = [f"nats://{LOOPBACK}:{port}" for port in ports]
            asyncio.run(make_stream(nats, servers))
            pids = [process.pid for process in processes]
            interval = "always" if self.durable == "synced" else "2m, the default"
            settings = {"replicas": str(SERVERS), "storage": "file", "sync_interval": interval}
            yield Running(partial(NatsClient, servers), lambda: pids, VERSION, settings)

    def _configuration(self, directory: Path, number: int, ports: list[int], routes: list[int]) -> str:
        sync = "sync_interval: always" if self.durable == "synced" else ""
        others = ", ".join(f'"nats://{LOOPBACK}:{port}"' for port in routes)
        return (
            f'server_name: "n{number}"\nlisten: "{LOOPBACK}:{ports[number]}"\nmax_payload: {8 * MIB}\n'
            f'jetstream {{ store_dir: "{directory / str(number)}"\n{sync} }}\n'
            f'cluster {{ name: "bench", listen: "{LOOPBACK}:{routes[number]}", routes: [{others}] }}\n'
        )


def built_server() -> Path:
    """The server, built once from the Go module proxy; `go` builds nothing that it has already."""
    go = shutil.which("go")
    if go is None:
        raise Unavailable("NATS is built with Go, which is not installed: install it with your package manager")
    place = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "ithaca" / "bench" / f"nats-{VERSION}"
    program = place / "nats-server"
    if not program.exists():
        command = [go, "install", f"{MODULE}@{VERSION}"]
        environment = os.environ | {"GOBIN": str(place)}
        try:
            done = subprocess.run(command, env=environment, capture_output=True, timeout=BUILD_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            raise Unavailable(f"the NATS server was not built within {BUILD_TIMEOUT_S:.0f} s") from None
        if done.returncode != 0:
            last = done.stderr.decode(errors="replace").strip().splitlines()[-3:]
            raise Unavailable("the NATS server could not be built: " + " | ".join(last))
    return program


async def make_stream(nats: Any, servers: list[str]) -> None:
    """Once the servers have found each other."""
    give_up_s = time.monotonic() + WAIT_S
    connection = await nats.connect(servers=servers)
    try:
        while True:
            config = nats.js.api.StreamConfig(name=STREAM, subjects=[STREAM], num_replicas=SERVERS, allow_direct=True)
            try:
                await connection.jetstream().add_stream(config)
                return
            except Exception as error:  # whatever it says while it has no leader
                if time.monotonic() > give_up_s:
                    raise Unavailable(f"NATS made no stream within {WAIT_S:.0f} s: {error}") from error
                await asyncio.sleep(0.5)
    finally:
        await connection.close()
