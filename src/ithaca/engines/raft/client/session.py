"""Named sessions of this engine: how one is begun, and the producer behind it."""

from collections.abc import Callable

from ithaca.client.appending.named_session import NamedSession
from ithaca.client.appending.under_way import UnderWay
from ithaca.client.deadline import Deadline
from ithaca.engines.raft.client.producer import Producer
from ithaca.engines.raft.client.servers import Servers
from ithaca.engines.raft.messages import BeginSession, SessionIs
from ithaca.model.errors import ProtocolError
from ithaca.model.records import Compression


async def begin_session(servers: Servers, name: str, deadline: Deadline) -> SessionIs:
    """Open a session, fencing whoever had it open."""
    answer = await servers.ask(BeginSession(name), deadline)
    if not isinstance(answer, SessionIs):
        raise ProtocolError(f"a server answered BeginSession with {type(answer).__name__}")
    return answer


async def open_session(
    servers: Servers,
    name: str,
    under_way: UnderWay,
    *,
    compression: Compression,
    timeout_s: float,
    check: Callable[[], None],
) -> NamedSession:
    """The session under a new epoch; `check` raises when the handle was closed meanwhile."""
    opened = await begin_session(servers, name, Deadline(timeout_s))
    check()
    producer = Producer(servers, opened, one_by_one=True, has_room=_nothing, failed=_nothing)
    return NamedSession(
        name, opened.next_seq, producer, under_way, compression=compression, timeout_s=timeout_s, check=check
    )


def _nothing() -> None:
    """Callers wait for their batches themselves."""
