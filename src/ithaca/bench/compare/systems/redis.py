"""Redis Streams: one server whose append-only file is synced with every command, through redis-py."""

import shutil
import subprocess
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from ithaca.bench.cluster.producers import Counted, Turn, append_until
from ithaca.bench.compare.open_loop import Done, Pace, append_when_due
from ithaca.bench.compare.system import Running, System, needed
from ithaca.bench.compare.work import Appended, Client, Fill, Filled, Role, evenly
from ithaca.bench.foreign import foreign_server
from ithaca.bench.measure import Progress
from ithaca.cluster.ports import LOOPBACK, free_ports
from ithaca.model.errors import DeadlineExceeded, Unavailable

STREAM: Final = "bench"
FIELD: Final = b"v"
FETCH: Final = 500
WAIT_S: Final = 30.0
BLOCK_MS: Final = 1000


class Reply:
    """Commands that were sent; their answers come in the order in which they were sent."""

    def __init__(self, client: "RedisClient", count: int) -> None:
        self._client, self._left = client, count
        self.ids: list[bytes] = []

    def take(self) -> None:
        """Wait for one more answer."""
        self.ids.append(self._client.connection.read_response())
        self._left -= 1

    def result(self) -> None:
        while self._left:
            self._client.oldest()


class RedisClient(Client):
    """Commands are written to one connection, and answered in turn: as far ahead as there are batches in flight."""

    def __init__(self, port: int, role: Role) -> None:
        redis = needed("redis", "redis")
        self._redis = redis.Redis(host=LOOPBACK, port=port)
        self.connection: Any = self._redis.connection_pool.get_connection()
        self._waiting: deque[Reply] = deque()

    def append(self, turn: Turn, values: list[list[bytes]]) -> Appended:
        return Appended.whole(turn, append_until(turn, values, self._submit))

    def pace(self, pace: Pace, values: list[list[bytes]]) -> Counted:
        def begin(batch: list[bytes], done: Done) -> None:
            self._submit(batch).result()
            done(None)

        return append_when_due(pace, values, begin)

    def fill(self, fill: Fill, values: list[list[bytes]]) -> Filled:
        places: list[bytes] = []
        for turn in range(-(-fill.records // fill.batch)):
            reply = self._submit(values[turn % len(values)])
            reply.result()
            places.extend(reply.ids)
        return Filled(len(places), fill.record_bytes, places[0], evenly(places))

    def read_all(self, filled: Filled) -> int:
        records, start = 0, filled.start
        while records < filled.records:
            entries = self._redis.xrange(STREAM, start, "+", count=FETCH)
            if not entries:
                raise Unavailable(f"Redis has {records} of {filled.records} entries")
            records += sum(1 for _, fields in entries if fields[FIELD])
            start = b"(" + entries[-1][0]
        return records

    def read_one(self, filled: Filled, place: Any) -> int:
        [(_, fields)] = self._redis.xrange(STREAM, place, place)
        return len(fields[FIELD])

    @contextmanager
    def subscription(self) -> Iterator[Iterator[bytes]]:
        newest = self._redis.xrevrange(STREAM, count=1)
        yield self._arriving(newest[0][0] if newest else b"0")

    def _arriving(self, place: bytes) -> Iterator[bytes]:
        give_up_s = time.monotonic() + WAIT_S
        while time.monotonic() < give_up_s:
            for _, entries in self._redis.xread({STREAM: place}, block=BLOCK_MS) or ():
                for _, fields in entries:
                    yield fields[FIELD]
                place = entries[-1][0]
                give_up_s = time.monotonic() + WAIT_S
        raise DeadlineExceeded(f"Redis sent nothing for {WAIT_S:.0f} s")

    def clear(self) -> None:
        """Trim the stream, and write the file of commands again, which has next to none then."""
        self._redis.xtrim(STREAM, maxlen=0, approximate=False)
        self._redis.bgrewriteaof()
        give_up_s = time.monotonic() + WAIT_S
        while self._is_rewriting():
            if time.monotonic() > give_up_s:
                raise DeadlineExceeded(f"Redis did not write its file again within {WAIT_S:.0f} s")
            time.sleep(0.05)

    def _is_rewriting(self) -> bool:
        told = self._redis.info("persistence")
        return bool(told["aof_rewrite_in_progress"] or told["aof_rewrite_scheduled"])

    def close(self) -> None:
        self._redis.connection_pool.release(self.connection)
        self._redis.close()

    def oldest(self) -> None:
        """Take the next answer, for whoever waits longest."""
        self._waiting.popleft().take()

    def _submit(self, batch: list[bytes]) -> Reply:
        reply = Reply(self, len(batch))
        self.connection.send_packed_command(
            self.connection.pack_commands([("XADD", STREAM, "*", FIELD, value) for value in batch])
        )
        self._waiting.extend([reply] * len(batch))
        return reply


class Redis(System):
    """One server, as replicas of Redis do not wait for each other's disks."""

    name = "redis"
    copies = 1
    order = "per stream"
    acknowledged = "synced to one disk"

    @contextmanager
    def run(self, directory: Path, progress: Progress) -> Iterator[Running]:
        needed("redis", "redis")
        program = shutil.which("redis-server")
        if program is None:
            raise Unavailable("redis-server is not installed: install it with your package manager")
        said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
        version = said.partition("v=")[2].partition(" ")[0] or "unknown"
        progress("starting a Redis server")
        directory.mkdir(mode=0o700, parents=True)
        [port] = free_ports(1)
        settings = {
            "appendonly": "yes",
            "appendfsync": "always",
            "auto-aof-rewrite-percentage": "0",  # the file is written again between workloads, and not within a turn
            "save": "",
        }
        command = [program, "--port", str(port), "--bind", LOOPBACK, "--dir", str(directory)]
        for name, value in settings.items():
            command += [f"--{name}", value]
        with foreign_server("Redis", command, directory / "output.txt", port) as process:
            yield Running(partial(RedisClient, port), lambda: [process.pid], version, settings)
