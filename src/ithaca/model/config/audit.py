"""Where a cluster's servers write down who came and what was changed, as its file says it. By default nowhere.

```toml
[audit]
path = "audit/{server}.jsonl"            # {server} stands for the server's name, such as orderer-1
file_bytes = "64M"                       # a file that would grow beyond is put aside, as PATH.1, PATH.2, ...
files = 8                                # so many are kept, the one that is written included
```

A path begins at the directory of the cluster's file.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ithaca.model.config.rules import Amount, Number, Rule, Text
from ithaca.model.limits import AUDIT_FILE_BYTES_MAX, AUDIT_FILE_BYTES_MIN, AUDIT_FILES_MAX, MIB, PATH_CHARS_MAX

_SERVER: Final = "{server}"

RULES: Final[Mapping[str, Rule]] = {
    "path": Text(PATH_CHARS_MAX),
    "file_bytes": Amount(Number(AUDIT_FILE_BYTES_MIN, AUDIT_FILE_BYTES_MAX), "bytes"),
    "files": Number(1, AUDIT_FILES_MAX),
}


@dataclass(frozen=True, slots=True)
class ClusterAudit:
    """The table, every value checked."""

    path: str = f"audit/{_SERVER}.jsonl"
    file_bytes: int = 64 * MIB
    files: int = 8
    directory: str = ""
    """Of the cluster's file."""

    def of_server(self, name: str) -> str:
        """Where one server writes.

        >>> ClusterAudit(directory="/etc/ithaca").of_server("orderer-1")
        '/etc/ithaca/audit/orderer-1.jsonl'
        """
        return os.path.join(self.directory, os.path.expanduser(self.path.replace(_SERVER, name)))


def audit_problem(table: Mapping[str, Any]) -> str | None:
    """What is wrong with the path, if something is: two servers must not write one file."""
    if _SERVER not in table.get("path", _SERVER):
        return f"is {table['path']!r}: put {_SERVER} into it, which stands for the server's name"
    return None


def dump_audit(audit: ClusterAudit | None) -> list[str]:
    """The lines of the table.

    >>> dump_audit(ClusterAudit())[1:3], dump_audit(None)
    (['[audit]', 'path = "audit/{server}.jsonl"'], [])
    """
    if audit is None:
        return []
    sizes = [f"file_bytes = {audit.file_bytes}", f"files = {audit.files}"]
    return ["", "[audit]", f"path = {json.dumps(audit.path)}", *sizes]
