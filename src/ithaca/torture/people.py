"""The users of a run whose cluster has users: each client is one, with the rights that it needs and no others; the
members of a group are one together, since a consumer is its user's.

Where servers are certified each has a certificate of its own, elsewhere a token. One user is revoked before the clients
begin, and one client is an `outsider`, who may only read.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from ithaca.cluster.certs.local import DIRECTORY
from ithaca.model.config.cluster import ClusterFile
from ithaca.model.interface.awaited import Admin
from ithaca.model.security.tls import TLS
from ithaca.torture.clients.client import Proof

REVOKED: Final = "revoked-1"
KNOWN_S: Final = 3.0
"""After so long every server knows of a change of users, many times over."""
_APPENDING: Final = ("producer", "plain", "publisher")
CONSUMING: Final = ("consumer", "member")


def rights_of(name: str) -> tuple[str, ...]:
    """What a client must be allowed to do.

    >>> rights_of("producer-2"), rights_of("member"), rights_of("outsider-1")
    (('append',), ('read', 'append'), ('read',))
    """
    role = name.partition("-")[0]
    return ("append",) if role in _APPENDING else ("read", "append") if role in CONSUMING else ("read",)


def user_of(name: str) -> str:
    """The user that a client is.

    >>> user_of("producer-2"), user_of("member-2")
    ('producer-2', 'member')
    """
    role = name.partition("-")[0]
    return role if role == "member" else name


async def enlisted(admin: Admin, directory: Path, file: ClusterFile, names: Sequence[str]) -> Mapping[str, Proof]:
    """Make a user for each of these names; how each proves who it is, and how the one would that was revoked."""
    proofs: dict[str, Proof] = {}
    for user in dict.fromkeys(map(user_of, (*names, REVOKED))):
        token = await admin.add_user(user, rights_of(user), certificate=file.are_servers_certified)
        proofs[user] = Proof(_certified(directory, file, user)) if file.are_servers_certified else Proof(token=token)
    await admin.revoke_user(REVOKED)
    return {name: proofs[user_of(name)] for name in (*names, REVOKED)}


def _certified(directory: Path, file: ClusterFile, name: str) -> TLS:
    from ithaca.cluster.certs.authority import Authority

    issued = Authority(directory / DIRECTORY).issue_user(file.name, name)
    return TLS(directory / DIRECTORY / "ca.pem", issued.certificate, issued.key)
