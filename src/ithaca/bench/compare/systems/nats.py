"""NATS JetStream: three servers, a stream with three copies, through its Python client."""

import asyncio
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import numpy as np

from ithaca.bench.children import reason
from ithaca.bench.cluster.producers import Counted, Turn
from ithaca.bench.compare.open_loop import DRAIN_S, Answers, Pace
from ithaca.bench.compare.system import Running, System, needed
from ithaca.bench.compare.work import Appended, Client, Fill, Filled, Role, evenly
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
BEFORE_ANSWERS: Final = 8
"""Records that are sent before answers are looked for."""
BUILD_TIMEOUT_S: Final = 900.0
WAIT_S: Final = 30.0

Result = TypeVar("Result")


class Flight:
    """Records in flight, as many as the plan has in all its batches. Each is answered for itself, and counts for itself
    if that was within the turn: whole batches would come in a few steps or, in a short turn, not at all.
    """

    def __init__(self, turn: Turn) -> None:
        self._stop_s, self._free = turn.stop_s, turn.plan.window * turn.plan.batch
        self._more = asyncio.Event()
        self._records = 0
        self._durations: list[float] = []
        self._error: BaseException | None = None

    async def room(self, wanted: int) -> None:
        """Wait until so many more may be sent; raises what one was refused with. One of them is taken."""
        while self._free < wanted and self._error is None:
            self._more.clear()
            await self._more.wait()
        if self._error is not None:
            raise self._error
        self._free -= 1

    def batch(self, began_s: float, count: int) -> Callable[[asyncio.Future[Any]], None]:
        """To be told of every answer to the records of a batch."""
        left = count

        def told(future: asyncio.Future[Any]) -> None:
            nonlocal left
            left -= 1
            self._free += 1
            self._error = self._error or future.exception()
            self._more.set()
            if (now := time.monotonic()) <= self._stop_s:
                self._records += 1
                if left == 0:
                    self._durations.append(now - began_s)

        return told

    def appended(self) -> Appended:
        return Appended(self._records, np.asarray(self._durations).tobytes())


class NatsClient(Client):
    """Its client is awaited; a turn runs in a loop of its own. A batch is as many messages, as there are no batches."""

    def __init__(self, servers: list[str], role: Role) -> None:
        self._nats = needed("nats", "nats-py")
        self._loop = asyncio.new_event_loop()
        self._connection: Any = self._run(self._nats.connect(servers=servers))
        self._stream = self._connection.jetstream(timeout=WAIT_S, publish_async_max_pending=100_000)

    def append(self, turn: Turn, values: list[list[bytes]]) -> Appended:
        return self._run(self._append(turn, values))

    async def _append(self, turn: Turn, values: list[list[bytes]]) -> Appended:
        await asyncio.sleep(max(0.0, turn.start_s - time.monotonic()))
        if turn.plan.window == turn.plan.batch == 1:
            return await self._append_alone(turn, values)
        flight = Flight(turn)
        sent = 0
        while (began := time.monotonic()) < turn.stop_s:
            batch = values[sent % len(values)]
            told = flight.batch(began, len(batch))
            for number, value in enumerate(batch, 1):
                await flight.room(1)
                future = await self._stream.publish_async(STREAM, value)
                future.add_done_callback(told)
                if number % BEFORE_ANSWERS == 0:
                    await asyncio.sleep(0)  # answers are taken while more is sent
            sent += 1
        async with asyncio.timeout(DRAIN_S):
            await flight.room(turn.plan.window * turn.plan.batch)
        return flight.appended()

    async def _append_alone(self, turn: Turn, values: list[list[bytes]]) -> Appended:
        durations: list[float] = []
        while (began := time.monotonic()) < turn.stop_s:
            await self._publish_one(values[len(durations) % len(values)][0])
            if (now := time.monotonic()) <= turn.stop_s:
                durations.append(now - began)
        return Appended(len(durations), np.asarray(durations).tobytes())

    def pace(self, pace: Pace, values: list[list[bytes]]) -> Counted:
        return self._run(self._pace(pace, values))

    async def _pace(self, pace: Pace, values: list[list[bytes]]) -> Counted:
        answers = Answers(pace.count)

        async def one(batch: list[bytes], due_s: float) -> None:
            try:
                await asyncio.gather(*map(self._publish_one, batch))
            except Exception as error:
                answers.done(due_s, reason(error))
            else:
                answers.done(due_s, None)

        async with asyncio.timeout(pace.turn.stop_s - time.monotonic() + DRAIN_S), asyncio.TaskGroup() as group:
            for number in range(pace.count):
                await asyncio.sleep(max(0.0, pace.due_s(number) - time.monotonic()))
                group.create_task(one(pace.batch(values, number), pace.due_s(number)))
        return answers.counted(pace.turn.stop_s)

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

    @contextmanager
    def subscription(self) -> Iterator[Iterator[bytes]]:
        policy = self._nats.js.api.DeliverPolicy.NEW
        pushed = self._run(self._stream.subscribe(STREAM, ordered_consumer=True, deliver_policy=policy))
        yield self._arriving(pushed)
        self._run(pushed.unsubscribe())

    def _arriving(self, pushed: Any) -> Iterator[bytes]:
        while True:
            message = self._run(pushed.next_msg(timeout=WAIT_S))
            yield message.data

    def clear(self) -> None:
        self._run(self._stream.purge_stream(STREAM))

    def close(self) -> None:
        self._run(self._connection.close())
        self._loop.close()

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
