"""Ports that are drawn for clusters."""

import subprocess
import sys

from ithaca.cluster.ports import free_ports

DRAW = """
import sys
from ithaca.cluster import ports
from ithaca.model.errors import Unavailable

ports._PORTS = range(int(sys.argv[1]), int(sys.argv[1]) + 1)
try:
    print(ports.free_ports(1))
except Unavailable:
    print("taken")
"""


def test_a_port_that_was_drawn_is_drawn_by_no_other_process() -> None:
    (port,) = free_ports(1)
    said = subprocess.run([sys.executable, "-c", DRAW, str(port)], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "taken"
