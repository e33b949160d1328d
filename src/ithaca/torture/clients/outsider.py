"""A client that does what it has no right to: as a user who may only read, as one who was revoked, and as nobody.

Whatever breaks meanwhile, each of its calls must be refused, or fail as calls do while servers fail. One that succeeds
ends the run.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from ithaca.model.errors import AuthenticationFailed, IthacaError, NotAllowed
from ithaca.model.interface.awaited import ClusterLog
from ithaca.model.security.tls import TLS
from ithaca.torture.clients.client import Client, Proof, passes

TIMEOUT_S = 5.0
PAUSE_S = 0.25
FORBIDDEN = b"of somebody who may not append"

Call = Callable[[], Awaitable[object]]


async def intrude(client: Client) -> None:
    """Try until told to finish."""
    errand = client.errand
    log = await client.connected()
    tls = errand.proof.tls
    nobody = Proof(None if tls is None else TLS(tls.authority), "")
    while not client.is_finishing:
        for call in _forbidden(log):
            await _refused(client, "a user who may only read", call)
        for who, proof in (("a user who was revoked", errand.revoked), ("nobody", nobody)):
            await _refused(client, who, lambda proof=proof: _read_as(client, proof))  # type: ignore[misc]
        await asyncio.sleep(PAUSE_S)
    await log.close()


def _forbidden(log: ClusterLog) -> Sequence[Call]:
    admin = log.admin
    return (
        lambda: log.append(FORBIDDEN, timeout=TIMEOUT_S),
        lambda: log.append_many([FORBIDDEN] * 2, timeout=TIMEOUT_S),
        lambda: log.session("outsider"),
        lambda: log.session("producer-1"),
        lambda: log.trim(2),
        lambda: admin.sessions(),
        lambda: admin.users(),
        lambda: admin.add_user("mallory", ["admin"]),
        lambda: admin.grant("outsider-1", ["append"]),
        lambda: admin.revoke_user("producer-1"),
    )


async def _read_as(client: Client, proof: Proof) -> object:
    log = await client.connect(proof, TIMEOUT_S)
    try:
        return await log.tail()
    finally:
        await log.close()


async def _refused(client: Client, who: str, call: Call) -> None:
    try:
        told = await call()
    except (NotAllowed, AuthenticationFailed):
        client.count(1)
    except IthacaError as error:
        if not passes(error):
            raise
    else:
        raise AssertionError(f"{who} was told {told!r}")
