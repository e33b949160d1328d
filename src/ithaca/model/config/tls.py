"""How the links of a cluster are protected, as its file says it. By default not at all.

```toml
[tls]
mode = "required"                        # or "preferred", "offered": on the way there
clients = "known"                        # or "anybody" who trusts the authority
authority = "tls/ca.pem"                 # whose word is taken for who somebody is
certificate = "tls/{server}.pem"         # who a server is: {server} stands for its name, such as orderer-1
key = "tls/{server}.key"
```

A client that is known has a certificate of a user, or of a server, of the cluster. Paths begin at the directory of the
file. A cluster without TLS gets it in three steps, each a rolling restart: `offered` (servers take TLS, and use none
among themselves), `preferred` (they use it, and still take what comes in the open), `required` (nothing is said in the
open, and clients are known if they shall be).
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from ithaca.model.config.rules import Choice, Rule, Text
from ithaca.model.limits import PATH_CHARS_MAX
from ithaca.model.security.tls import TLS
from ithaca.model.security.users import OPERATOR

TlsMode = Literal["offered", "preferred", "required"]
TlsClients = Literal["known", "anybody"]
_PATHS: Final = ("authority", "certificate", "key")
_SERVER: Final = "{server}"

RULES: Final[Mapping[str, Rule]] = {
    "mode": Choice(get_args(TlsMode)),
    "clients": Choice(get_args(TlsClients)),
    "authority": Text(PATH_CHARS_MAX),
    "certificate": Text(PATH_CHARS_MAX),
    "key": Text(PATH_CHARS_MAX),
}


@dataclass(frozen=True, slots=True)
class ClusterTls:
    """The table, every value checked; whether the files are there is seen by whoever uses them."""

    authority: str = "tls/ca.pem"
    certificate: str = f"tls/{_SERVER}.pem"
    key: str = f"tls/{_SERVER}.key"
    mode: TlsMode = "required"
    clients: TlsClients = "known"
    directory: str = ""
    """Of the cluster's file."""

    def of_server(self, name: str) -> TLS:
        """The files of one server.

        >>> ClusterTls(directory="/etc/ithaca").of_server("orderer-1").key
        '/etc/ithaca/tls/orderer-1.key'
        """
        return TLS(*(self._path(getattr(self, each).replace(_SERVER, name)) for each in _PATHS))

    def of_clients(self) -> TLS | None:
        """What whoever knows the file connects with; None while servers need not speak TLS yet."""
        if self.mode == "offered":
            return None
        # Commands that are given the cluster's directory connect by the operator's certificate.
        return self.of_server(OPERATOR) if self.clients == "known" else TLS(self._path(self.authority))

    @property
    def is_closed(self) -> bool:
        """Whether nobody gets in who has not proved who it is."""
        return self.mode == "required" and self.clients == "known"

    def _path(self, path: str) -> str:
        return os.path.join(self.directory, os.path.expanduser(path))


def cluster_tls(table: Mapping[str, Any] | None, directory: str) -> ClusterTls | None:
    """What a table that was checked says; None when there is none."""
    return None if table is None else ClusterTls(**table, directory=directory)


def tls_problem(table: Mapping[str, Any]) -> tuple[str, str] | None:
    """Which setting cannot be, and why."""
    for name in ("certificate", "key"):
        if not table.get(name, _SERVER):
            return name, f"is empty: name a file, with {_SERVER} for the server's name"
    if not table.get("authority", _SERVER) or _SERVER in table.get("authority", ""):
        return "authority", "names no file that all servers share"
    return None


def dump_tls(tls: ClusterTls | None) -> list[str]:
    """The lines of the table.

    >>> dump_tls(ClusterTls())[1:3], dump_tls(None)
    (['[tls]', 'mode = "required"'], [])
    """
    if tls is None:
        return []
    words = [f'mode = "{tls.mode}"', f'clients = "{tls.clients}"']
    return ["", "[tls]", *words, *(f"{each} = {json.dumps(getattr(tls, each))}" for each in _PATHS)]
