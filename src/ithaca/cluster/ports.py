"""Whether servers could listen, asked before any is started."""

import errno
import random
import socket
import sys
from collections import deque
from collections.abc import Sequence

from ithaca.model.errors import Unavailable
from ithaca.model.view import Address

LOOPBACK = "127.0.0.1"

_PORTS = range(10_000, 32_000)
_RANDOM = random.SystemRandom()
"""Not the module's: a program that seeds it would try the same ports as its twin beside it."""
_RESERVED: deque[socket.socket] = deque()
_RESERVED_MAX = 128
"""The last that were drawn, until their servers listen."""


def refuse_taken(addresses: Sequence[Address]) -> None:
    """`Unavailable` names the first address at which somebody listens already."""
    for address in addresses:
        try:
            _listen(address).close()
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise Unavailable(
                    f"port {address.port} on {address.host} is in use by another program, so nothing was started: "
                    "stop that program, or choose other ports with --port"
                ) from None
            raise Unavailable(f"nobody can listen at {address}: {error.strerror or error}") from error


def free_ports(count: int) -> list[int]:
    """Ports of the loopback interface at which nobody listens.

    They are below those that the kernel gives to outgoing connections, any of which could take one between now
    and the moment at which a server listens. Other processes that ask here do not get them either, for a while.
    """
    found: list[int] = []
    for port in _RANDOM.sample(_PORTS, len(_PORTS)):
        if len(found) == count:
            return found
        try:
            _reserve(port)
            _listen(Address(LOOPBACK, port)).close()
        except OSError:
            continue
        found.append(port)
    raise Unavailable(f"fewer than {count} ports from {_PORTS.start} to {_PORTS.stop - 1} are free")


def _reserve(port: int) -> None:
    """Keep other processes from drawing the port; `OSError` when one of them has done that."""
    if sys.platform == "linux":
        mark = socket.socket(socket.AF_UNIX)
        try:
            mark.bind(f"\0ithaca-port-{port}")  # a name without a file, which goes with its socket
        except OSError:
            mark.close()
            raise
        _RESERVED.append(mark)
        if len(_RESERVED) > _RESERVED_MAX:
            _RESERVED.popleft().close()


def next_ports(count: int, above: int) -> list[int]:
    """The next ports of the loopback interface above this one at which nobody listens."""
    found: list[int] = []
    for port in range(above + 1, 65536):
        if len(found) == count:
            break
        try:
            _listen(Address(LOOPBACK, port)).close()
        except OSError:
            continue
        found.append(port)
    if len(found) < count:
        raise Unavailable(f"fewer than {count} ports above {above} are free")
    return found


def _listen(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    return socket.create_server((address.host, address.port), family=family)
