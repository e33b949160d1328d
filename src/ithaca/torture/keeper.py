"""The process that keeps the servers of a cluster under test running, with the supervisor of `ithaca up`.

`python -m ithaca.torture.keeper DIRECTORY`: `programs.json` there says what to run. It ends with whoever started it.
"""

import asyncio
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from ithaca.cluster.supervisor import Program, Supervisor
from ithaca.server.process import die_with_supervisor
from ithaca.storage.directory_lock import take_lock
from ithaca.storage.disk import OsDisk

PROGRAMS = "programs.json"

_log = logging.getLogger("ithaca.keeper")


def save_programs(directory: Path, programs: Sequence[Program]) -> None:
    (directory / PROGRAMS).write_bytes(msgspec.json.encode(programs))


async def _keep(directory: Path) -> None:
    programs = msgspec.json.decode((directory / PROGRAMS).read_bytes(), type=list[Program])
    await Supervisor(directory, programs, _log.warning).run()


def main() -> None:
    directory = Path(sys.argv[1])
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    die_with_supervisor()
    lock = take_lock(OsDisk(), str(directory), "one keeper is enough")
    try:
        asyncio.run(_keep(directory))
    finally:
        lock.close()


if __name__ == "__main__":
    main()
