"""What a certificate says of who has it: a URI among its alternative names.

`ithaca://CLUSTER/SERVER` is a server of a cluster, by the name of its directory (`orderer-1`, `shard-0-replica-1`,
`aggregator-2`, `spare-1`). `ithaca://CLUSTER/user/NAME` is a user.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote, urlsplit

SCHEME: Final = "ithaca"
_USER: Final = "user/"
_SPARE: Final = "spare-"


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a certificate is of: a server or a user of a cluster. The other one is empty."""

    cluster: str
    server: str = ""
    user: str = ""

    @property
    def uri(self) -> str:
        """As certificates carry it.

        >>> Identity("my bank", server="orderer-1").uri, Identity("bank", user="alice").uri
        ('ithaca://my%20bank/orderer-1', 'ithaca://bank/user/alice')
        """
        path = f"{_USER}{quote(self.user, safe='')}" if self.user else quote(self.server, safe="")
        return f"{SCHEME}://{quote(self.cluster, safe='')}/{path}"

    def __str__(self) -> str:
        return f"user {self.user} of {self.cluster}" if self.user else f"{self.server} of {self.cluster}"


def identity_in(uris: Iterable[str]) -> Identity | None:
    """The first of these that says who somebody is.

    >>> identity_in(["https://example.com", "ithaca://bank/shard-0-replica-1"])
    Identity(cluster='bank', server='shard-0-replica-1', user='')
    """
    for uri in uris:
        try:
            parts = urlsplit(uri)
        except ValueError:
            continue
        path = parts.path.removeprefix("/")
        if parts.scheme != SCHEME or not parts.netloc or not path or parts.query or parts.fragment:
            continue
        # The network location as it is written: `hostname` would make it lower-case.
        cluster = unquote(parts.netloc)
        name = path.removeprefix(_USER)
        if "/" in name or not name:
            continue
        return Identity(cluster, user=unquote(name)) if name != path else Identity(cluster, server=unquote(path))
    return None


def server_name(role: str, name: str) -> str:
    """What a server is called whose greeting says this of it.

    >>> server_name("orderer", "1"), server_name("replica", "0/1"), server_name("replica", "shard-0-replica-1")
    ('orderer-1', 'shard-0-replica-1', 'shard-0-replica-1')
    """
    if role != "replica":
        return f"{role}-{name}"
    found = re.fullmatch(r"([0-9]+)/([0-9]+)", name)
    return name if found is None else f"shard-{found[1]}-replica-{found[2]}"


def is_server(identity: Identity | None, cluster: str) -> bool:
    """Whether somebody is a server of this cluster, whichever."""
    return identity is not None and identity.cluster == cluster and bool(identity.server)


def server_problem(identity: Identity | None, cluster: str, role: str, name: str) -> str | None:
    """Why somebody is not the server of this cluster that it says it is; None when its certificate says the same.

    A spare may be any replica: which one is what the ordering layer has agreed on.

    >>> server_problem(Identity("bank", server="spare-1"), "bank", "replica", "0/2")
    >>> server_problem(Identity("bank", user="alice"), "bank", "replica", "0/2")
    'it says that it is shard-0-replica-2, and its certificate is of user alice of bank'
    """
    said = server_name(role, name)
    if identity is None:
        return f"it says that it is {said}, and has no certificate that says so"
    is_said = identity.server == said or (role == "replica" and identity.server.startswith(_SPARE))
    if is_said and is_server(identity, cluster):
        return None
    return f"it says that it is {said}, and its certificate is of {identity}"
