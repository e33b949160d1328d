"""Connecting to a cluster: `ithaca.connect` and `ithaca.aio.connect`. Its servers say which engine it has.

Whoever answers first decides: the addresses are dialled at the same time, so that one that hangs holds up nothing.
"""

import asyncio
import logging
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from ithaca.client.bootstrap import parse_bootstrap
from ithaca.client.deadline import Deadline
from ithaca.client.engine_log import EngineLog
from ithaca.client.portal import portal
from ithaca.client.settings import ClientSettings, client_settings
from ithaca.client.sync.log import SyncClusterLog
from ithaca.engines import registry
from ithaca.engines.engine import Engine
from ithaca.model import interface
from ithaca.model.engine import EngineName
from ithaca.model.errors import AuthenticationFailed, EngineMismatch, IthacaError, ProtocolError, Unavailable
from ithaca.model.interface import ShardPolicy, awaited
from ithaca.model.limits import ATTEMPT_TIMEOUT_S, INFLIGHT_BYTES_MAX, WAITING_TOLD_S
from ithaca.model.records import Compression
from ithaca.model.security.tls import TLS
from ithaca.model.units import Duration, Size
from ithaca.model.view import Address
from ithaca.protocol.greeting import ANY_ENGINE, FEATURES, VERSION_MAX, VERSION_MIN, Hello
from ithaca.runtime.backoff import Backoff
from ithaca.runtime.connection import OnlyAnswers
from ithaca.runtime.dialling import Introduction, dial
from ithaca.runtime.futures import Opening

_log = logging.getLogger("ithaca.client")


def connect(
    bootstrap: str | Sequence[str],
    *,
    timeout: Duration = 30,
    compression: Compression = "none",
    shard_policy: ShardPolicy | None = None,
    inflight_bytes_max: Size = INFLIGHT_BYTES_MAX,
    tls: TLS | None = None,
    token: str | None = None,
) -> interface.ClusterLog:
    """Connect to a cluster.

    `bootstrap` names one or more orderers; the others, and the replicas, are found through them. `timeout`, in
    seconds or as text ("500ms"), bounds every call, `close` included; a call may be given a shorter one of its own. Not
    bounded are waits for records that are yet to come. `shard_policy` says where records go, "sticky" when it is
    left out; `inflight_bytes_max` how many bytes may be under way before appends wait; `compression` is that of the
    batches that are sent. `tls` says whom to trust and who this side is, by files (`ithaca.TLS`); left out, the
    environment may (`ITHACA_TLS_AUTHORITY`, `ITHACA_TLS_CERTIFICATE`, `ITHACA_TLS_KEY`). `token` is the user's, where
    the cluster has users and a certificate does not say who this is; left out, `ITHACA_TOKEN` may say it, or a file of
    mode 0600 that `ITHACA_TOKEN_FILE` names. It is sent over TLS, or to this machine. All handles of a process share
    one thread, which is started with the first of them. `EngineMismatch` when this version does not know the cluster's
    engine.

    >>> import ithaca
    >>> ithaca.connect("127.0.0.1")
    Traceback (most recent call last):
        ...
    ithaca.model.errors.InvalidInput: '127.0.0.1' is not an address: write it as "host:port", IPv6 as "[::1]:7600"
    """
    settings = client_settings(timeout, compression, shard_policy, inflight_bytes_max, tls, token)
    way_in = portal()
    twin = way_in.run(lambda: connected(bootstrap, settings))
    return SyncClusterLog(way_in, twin, twin, compression=compression)


def connect_awaited(
    bootstrap: str | Sequence[str],
    *,
    timeout: Duration = 30,
    compression: Compression = "none",
    shard_policy: ShardPolicy | None = None,
    inflight_bytes_max: Size = INFLIGHT_BYTES_MAX,
    tls: TLS | None = None,
    token: str | None = None,
) -> Opening[awaited.ClusterLog]:
    """`ithaca.connect`, awaited: `log = await ithaca.aio.connect(...)` or `async with ithaca.aio.connect(...) as log`.

    `bootstrap` names one or more orderers; the others, and the replicas, are found through them. `timeout`, in
    seconds or as text ("500ms"), bounds every call, `close` included; a call may be given a shorter one of its own. Not
    bounded are waits for records that are yet to come. `shard_policy` says where records go, "sticky" when it is
    left out; `inflight_bytes_max` how many bytes may be under way before appends wait; `compression` is that of the
    batches that are sent. `tls` says whom to trust and who this side is, by files (`ithaca.TLS`); left out, the
    environment may (`ITHACA_TLS_AUTHORITY`, `ITHACA_TLS_CERTIFICATE`, `ITHACA_TLS_KEY`). `token` is the user's, where
    the cluster has users and a certificate does not say who this is; left out, `ITHACA_TOKEN` may say it, or a file of
    mode 0600 that `ITHACA_TOKEN_FILE` names. It is sent over TLS, or to this machine. `EngineMismatch` when this
    version does not know the cluster's engine.

    >>> import asyncio, ithaca.aio
    >>> async def main() -> None:
    ...     await ithaca.aio.connect("127.0.0.1")
    >>> asyncio.run(main())
    Traceback (most recent call last):
        ...
    ithaca.model.errors.InvalidInput: '127.0.0.1' is not an address: write it as "host:port", IPv6 as "[::1]:7600"
    """
    settings = client_settings(timeout, compression, shard_policy, inflight_bytes_max, tls, token)
    return Opening(lambda: connected(bootstrap, settings))


async def connected(bootstrap: str | Sequence[str], settings: ClientSettings) -> EngineLog:
    """A handle on the cluster, whatever its engine is."""
    addresses = parse_bootstrap(bootstrap)
    with _Waiting(addresses, settings.timeout_s) as waiting:
        deadline, said = Deadline(settings.timeout_s), _said(settings.tls, settings.token)
        name = await _engine_name(addresses, deadline, said, patient=True, waiting=waiting)
        waiting.reason = "a server answers, and the one that leads is still looked for"
        engine = _known(name, addresses)
        log = await engine.connect(addresses, settings)
    log.features = engine.features
    log.bootstrap = ", ".join(map(str, addresses))
    return log


async def engine_at(
    addresses: Sequence[Address], timeout_s: float, tls: TLS | None = None, *, patient: bool = True
) -> Engine:
    """The engine of the cluster at these addresses; `EngineMismatch` when this version does not know it.

    Who is patient goes on asking until the time is up.
    """
    return _known(await _engine_name(addresses, Deadline(timeout_s), _said(tls), patient), addresses)


def _known(name: EngineName, addresses: Sequence[Address]) -> Engine:
    if name not in registry.names():
        known = ", ".join(registry.names())
        raise EngineMismatch(
            f"the cluster at {_listed(addresses)} has the engine {name!r}, and this version knows {known}: "
            "update this side",
            engine=name,
        )
    return registry.engine(name)


class _Waiting:
    """Says in the log what is waited for, once, when it takes long."""

    def __init__(self, addresses: Sequence[Address], timeout_s: float) -> None:
        self._where = _listed(addresses)
        self._timeout_s = timeout_s
        self.reason = "nobody has answered yet"

    def __enter__(self) -> Self:
        self._timer = asyncio.get_running_loop().call_later(WAITING_TOLD_S, self._tell)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._timer.cancel()

    def _tell(self) -> None:
        if self._timeout_s > WAITING_TOLD_S:
            _log.warning(
                "waiting for the cluster at %s, for up to %.3g s: %s", self._where, self._timeout_s, self.reason
            )


async def _engine_name(
    addresses: Sequence[Address],
    deadline: Deadline,
    said: Introduction,
    patient: bool,
    waiting: _Waiting | None = None,
) -> EngineName:
    pauses = Backoff()
    problems: dict[Address, IthacaError] = {}
    while True:
        name, found = await _first_answer(addresses, deadline, said)
        if name is not None:
            return name
        # What an attempt found that ran out of time says little: what an earlier one found says more.
        problems = found | problems if deadline.passed else found
        reasons = "; ".join(dict.fromkeys(map(str, problems.values())))
        if waiting is not None:
            waiting.reason = reasons
        if all(isinstance(problem, AuthenticationFailed) for problem in problems.values()):
            raise AuthenticationFailed(reasons)
        if all(isinstance(problem, ProtocolError) for problem in problems.values()):
            raise ProtocolError(f"no server of Ithaca is at {_listed(addresses)}: {reasons}")
        if deadline.passed or not patient:
            raise Unavailable(f"nobody answers at {_listed(addresses)} within {deadline.timeout_s:.3g} s: {reasons}")
        await pauses.pause(deadline)


async def _first_answer(
    addresses: Sequence[Address], deadline: Deadline, said: Introduction
) -> tuple[EngineName | None, dict[Address, IthacaError]]:
    """Ask all of them at once: what the first says that answers, else what is wrong with each."""
    asking = [asyncio.create_task(_asked(address, deadline, said)) for address in addresses]
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


def _said(tls: TLS | None, token: str = "") -> Introduction:
    """Whoever asks for the engine is nobody in particular, unless it says who it is: then it learns what is wrong."""
    hello = Hello(VERSION_MIN, VERSION_MAX, "client", features=FEATURES, credentials=token.encode(), engine=ANY_ENGINE)
    return Introduction(hello, tls)


async def _asked(address: Address, deadline: Deadline, said: Introduction) -> EngineName | IthacaError:
    """The engine that the server here says it has, or why it says none."""
    try:
        connection = await dial(
            address,
            said,
            OnlyAnswers(),
            timeout=max(min(deadline.left_s, ATTEMPT_TIMEOUT_S), 0.001),
        )
    except IthacaError as error:
        return error
    connection.close()
    assert connection.welcome is not None
    return connection.welcome.engine


def _listed(addresses: Sequence[Address]) -> str:
    return ", ".join(sorted(map(str, addresses)))
