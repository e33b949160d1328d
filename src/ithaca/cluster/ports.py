"""Whether servers could listen, asked before any is started."""

import errno
import socket
from collections.abc import Sequence

from ithaca.model.errors import Unavailable
from ithaca.model.view import Address

LOOPBACK = "127.0.0.1"


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
    """Ports of the loopback interface at which nobody listens; all are held until all are found."""
    listeners = [_listen(Address(LOOPBACK, 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports


def _listen(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    return socket.create_server((address.host, address.port), family=family)
