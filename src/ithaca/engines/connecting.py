"""Connecting to a cluster: `ithaca.connect` and `ithaca.aio.connect`. Its servers say which engine it has.

Whoever answers first decides: the addresses are dialled at the same time, so that one that hangs holds up nothing.
"""

import asyncio
from collections.abc import Sequence

from ithaca.client.bootstrap import parse_bootstrap
from ithaca.client.deadline import Deadline
from ithaca.client.engine_log import EngineLog
from ithaca.client.portal import portal
from ithaca.client.settings import ClientSettings
from ithaca.client.sync_log import SyncClusterLog
from ithaca.engines import registry
from ithaca.engines.engine import Engine
from ithaca.model import interface
from ithaca.model.engine import EngineName
from ithaca.model.errors import EngineMismatch, IthacaError, ProtocolError, Unavailable
from ithaca.model.interface import ShardPolicy, awaited
from ithaca.model.limits import ATTEMPT_TIMEOUT_S, INFLIGHT_BYTES_MAX
from ithaca.model.records import Compression
from ithaca.model.view import Address
from ithaca.protocol.greeting import ANY_ENGINE, FEATURES, VERSION_MAX, VERSION_MIN, Hello
from ithaca.runtime.backoff import Backoff
from ithaca.runtime.connection import OnlyAnswers, dial
from ithaca.runtime.futures import Opening


def connect(
    bootstrap: str | Sequence[str],
    *,
    timeout: float = 30,
    compression: Compression = "none",
    shard_policy: ShardPolicy | None = None,
    inflight_bytes_max: int = INFLIGHT_BYTES_MAX,
) -> interface.ClusterLog:
    """Connect to a cluster.

    `bootstrap` names one or more orderers; the others, and the replicas, are found through them. `timeout` bounds
    every call that is not given one of its own. All handles of a process share one thread, which is started
    with the first of them. `EngineMismatch` when this version does not know the cluster's engine.

    >>> import ithaca
    >>> ithaca.connect("127.0.0.1")
    Traceback (most recent call last):
        ...
    ithaca.model.errors.InvalidInput: '127.0.0.1' is not an address: write it as "host:port", IPv6 as "[::1]:7600"
    """
    settings = ClientSettings(
        timeout, compression, "sticky" if shard_policy is None else shard_policy, inflight_bytes_max
    )
    way_in = portal()
    twin = way_in.run(lambda: connected(bootstrap, settings))
    return SyncClusterLog(way_in, twin, twin, compression=compression, inflight_bytes_max=inflight_bytes_max)


def connect_awaited(
    bootstrap: str | Sequence[str],
    *,
    timeout: float = 30,
    compression: Compression = "none",
    shard_policy: ShardPolicy | None = None,
    inflight_bytes_max: int = INFLIGHT_BYTES_MAX,
) -> Opening[awaited.ClusterLog]:
    """`ithaca.connect`, awaited: `log = await ithaca.aio.connect(...)` or `async with ithaca.aio.connect(...) as log`.

    `bootstrap` names one or more orderers; the others, and the replicas, are found through them. `timeout` bounds
    every call that is not given one of its own. `EngineMismatch` when this version does not know the cluster's engine.

    >>> import asyncio, ithaca.aio
    >>> async def main() -> None:
    ...     await ithaca.aio.connect("127.0.0.1")
    >>> asyncio.run(main())
    Traceback (most recent call last):
        ...
    ithaca.model.errors.InvalidInput: '127.0.0.1' is not an address: write it as "host:port", IPv6 as "[::1]:7600"
    """
    settings = ClientSettings(
        timeout, compression, "sticky" if shard_policy is None else shard_policy, inflight_bytes_max
    )
    return Opening(lambda: connected(bootstrap, settings))


async def connected(bootstrap: str | Sequence[str], settings: ClientSettings) -> EngineLog:
    """A handle on the cluster, whatever its engine is."""
    addresses = parse_bootstrap(bootstrap)
    engine = await engine_at(addresses, settings.timeout_s)
    return await engine.connect(addresses, settings)


async def engine_at(addresses: Sequence[Address], timeout_s: float, *, patient: bool = True) -> Engine:
    """The engine of the cluster at these addresses; `EngineMismatch` when this version does not know it.

    Who is patient goes on asking until the time is up.
    """
    name = await _engine_name(addresses, Deadline(timeout_s), patient)
    if name not in registry.names():
        known = ", ".join(registry.names())
        raise EngineMismatch(
            f"the cluster at {_listed(addresses)} has the engine {name!r}, and this version knows {known}: "
            "update this side",
            engine=name,
        )
    return registry.engine(name)


async def _engine_name(addresses: Sequence[Address], deadline: Deadline, patient: bool) -> EngineName:
    pauses = Backoff()
    while True:
        name, problems = await _first_answer(addresses, deadline)
        if name is not None:
            return name
        reasons = "; ".join(f"{address}: {error}" for address, error in problems.items())
        if all(isinstance(problem, ProtocolError) for problem in problems.values()):
            raise ProtocolError(f"no server of Ithaca is at {_listed(addresses)}: {reasons}")
        if deadline.passed or not patient:
            raise Unavailable(f"nobody answers at {_listed(addresses)} within {deadline.timeout_s:.3g} s: {reasons}")
        await pauses.pause(deadline)


async def _first_answer(
    addresses: Sequence[Address], deadline: Deadline
) -> tuple[EngineName | None, dict[Address, IthacaError]]:
    """Ask all of them at once: what the first says that answers, else what is wrong with each."""
    asking = [asyncio.create_task(_asked(address, deadline)) for address in addresses]
    try:
        while True:
            await asyncio.wait([task for task in asking if not task.done()], return_when=asyncio.FIRST_COMPLETED)
            answers = [task.result() for task in asking if task.done()]
            for answer in answers:
                if isinstance(answer, str):
                    return answer, {}
            if len(answers) == len(asking):
                problems = zip(addresses, answers, strict=True)
                return None, {address: error for address, error in problems if isinstance(error, IthacaError)}
    finally:
        for task in asking:
            task.cancel()


async def _asked(address: Address, deadline: Deadline) -> EngineName | IthacaError:
    """The engine that the server here says it has, or why it says none."""
    hello = Hello(VERSION_MIN, VERSION_MAX, "client", features=FEATURES, engine=ANY_ENGINE)
    try:
        connection = await dial(
            address, hello, OnlyAnswers(), timeout=max(min(deadline.left_s, ATTEMPT_TIMEOUT_S), 0.001)
        )
    except IthacaError as error:
        return error
    connection.close()
    assert connection.welcome is not None
    return connection.welcome.engine


def _listed(addresses: Sequence[Address]) -> str:
    return ", ".join(sorted(map(str, addresses)))
