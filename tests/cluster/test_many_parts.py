"""Many parts and few descriptors: a shard goes on, and a restart finds everything, with no more files open."""

import subprocess
import sys

PARTS = 150
DESCRIPTORS = 220

CHILD = f"""
import os, resource
resource.setrlimit(resource.RLIMIT_NOFILE, ({DESCRIPTORS}, {DESCRIPTORS}))
import ithaca
from ithaca.testing import Cluster

def published(log, start):
    for key in range(start, start + {PARTS}):
        log.publish(key + 1, [log.prepare([b"%d of %d" % (row, key) for row in range(3)])], writer="w")

def values(log):
    return [record.value for record in log.read_range(log.first())]

with Cluster(shards=1, replicas=2) as cluster:
    with ithaca.connect(cluster.bootstrap) as log:
        published(log, 0)
        expected = [b"%d of %d" % (row, key) for key in range({PARTS}) for row in range(3)]
        assert values(log) == expected
        assert log.read(log.first() + 100).value == expected[100]
    for name in ("shard-0-replica-0", "shard-0-replica-1"):
        cluster.kill_server(name)
        cluster.start_server(name)
        cluster.wait_healthy()
    with ithaca.connect(cluster.bootstrap) as log:
        assert values(log) == expected
        published(log, {PARTS})
        assert len(values(log)) == 2 * len(expected)
        log.trim(log.first() + 3 * {PARTS} + 1)
        assert len(values(log)) == len(expected) - 1
print("all", len(os.listdir("/proc/self/fd")))
"""


def test_hundreds_of_parts_in_a_process_that_may_open_few_files() -> None:
    done = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.startswith("all ")
