"""Ports for clusters that take consecutive ones."""

from ithaca.cluster.ports import free_ports, refuse_taken
from ithaca.model.errors import Unavailable
from ithaca.model.view import Address


def free_base(count: int) -> int:
    """A port such that it and those after it are free."""
    for port in free_ports(50):
        try:
            refuse_taken([Address("127.0.0.1", port + step) for step in range(count)])
        except (Unavailable, OverflowError):
            continue
        return port
    raise AssertionError("no ports are free")
