"""A process with several clients of one store, until it is killed: it says what it calls, and what has returned.

python -m tests.objects.killed_client LOG STATE SEED
"""

import json
import sys
import threading
import time
from pathlib import Path
from random import Random

import ithaca
from ithaca.objects import Store

KEYS = 3
CLIENTS = 3


def say(**fields: object) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")  # one write: lines of threads do not mix
    sys.stdout.flush()


def work(store: Store, random: Random, name: str) -> None:
    for number in range(10**6):
        keys = random.sample(range(KEYS), random.randint(1, KEYS))
        told = f"{name}-{number}"
        wanted = [b"%d" % key for key in keys]
        if random.random() < 0.4:
            say(call=told, name="get", keys=keys, at=time.monotonic())
            found = store.get_many(wanted)
            values = [None if found[key] is None else (found[key] or b"").decode() for key in wanted]
            say(answer=told, result=values, at=time.monotonic())
        else:
            say(call=told, name="put", keys=keys, at=time.monotonic())
            store.put_many(dict.fromkeys(wanted, told.encode()))
            say(answer=told, result=True, at=time.monotonic())


def main(log_path: str, state: str, seed: str) -> None:
    with ithaca.open(log_path) as log, Store(log, "killed", state=Path(state)) as store:
        threads = [
            threading.Thread(target=work, args=(store, Random(f"{seed}/{client}"), f"{seed}/{client}"))
            for client in range(CLIENTS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
