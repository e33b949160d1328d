"""A server in a process that may open few files: `python -m tests.runtime.few_descriptors asyncio|uvloop`.

It says its port, then answers whoever gets in, until its input ends.
"""

import asyncio
import resource
import sys

import uvloop
from tests.runtime.echo import echo_server

from ithaca.runtime.admission import limited

DESCRIPTORS = 40


async def main() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
    async with echo_server(capacity=limited(1000, 256, 64)) as server:
        print(server.address.port, flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    (uvloop.run if sys.argv[1] == "uvloop" else asyncio.run)(main())
