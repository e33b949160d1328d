"""Whether a cluster knows its clients by name, as its file says it. By default whoever is let in may do everything.

```toml
[users]
required = true                          # every client says who it is, and does what it has the right to
secret = "operator.token"                # the operator's token, where servers have no certificates
```

The users themselves, with their rights, are what the servers have agreed on; the file only says that there are some.
With `mode = "required"` in `[tls]` servers prove who they are by their certificates, and the operator by one of the
user `operator`; nothing is read from `secret` then. Without, all servers are on the loopback interface, and whoever can
read the file of the secret is the operator, and may be a server. A path begins at the directory of the cluster's
file.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ithaca.model.config.rules import Flag, Rule, Text
from ithaca.model.limits import PATH_CHARS_MAX
from ithaca.model.security.token import read_token

SECRET: Final = "operator.token"
RULES: Final[Mapping[str, Rule]] = {"required": Flag(), "secret": Text(PATH_CHARS_MAX)}


@dataclass(frozen=True, slots=True)
class ClusterUsers:
    """The table, every value checked."""

    secret: str = SECRET
    directory: str = ""
    """Of the cluster's file."""

    @property
    def secret_path(self) -> str:
        """Where the operator's token is.

        >>> ClusterUsers(directory="/etc/ithaca").secret_path
        '/etc/ithaca/operator.token'
        """
        return os.path.join(self.directory, os.path.expanduser(self.secret))

    def operator_token(self) -> str:
        """The operator's token; `InvalidInput` when it cannot be read, or others can read it."""
        return read_token(self.secret_path)


def cluster_users(table: Mapping[str, Any], directory: str) -> ClusterUsers | None:
    """What a table that was checked says; None when users are not required.

    >>> cluster_users({"required": True}, "/etc") is None, cluster_users({}, "/etc") is None
    (False, True)
    """
    if not table.get("required", False):
        return None
    return ClusterUsers(table.get("secret", SECRET), directory)


def dump_users(users: ClusterUsers | None) -> list[str]:
    """The lines of the table.

    >>> dump_users(ClusterUsers()), dump_users(None)
    (['', '[users]', 'required = true', 'secret = "operator.token"'], [])
    """
    return [] if users is None else ["", "[users]", "required = true", f"secret = {json.dumps(users.secret)}"]
