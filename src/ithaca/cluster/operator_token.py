"""A cluster on this machine that has users: where servers have no certificates, the operator has a token."""

from dataclasses import replace
from pathlib import Path

from ithaca.model.config.cluster import ClusterFile
from ithaca.model.config.users import ClusterUsers
from ithaca.model.security.token import write_token
from ithaca.model.security.users import OPERATOR
from ithaca.runtime.machine import rng
from ithaca.users.tokens import SECRET_BYTES, token_text


def with_users(directory: Path, file: ClusterFile) -> ClusterFile:
    """A new cluster as one with users, and the operator's token in a file of mode 0600 if it needs one."""
    users = ClusterUsers(directory=str(directory.absolute()))
    file = replace(file, users=users)
    if not file.are_servers_certified and not Path(users.secret_path).exists():
        write_token(users.secret_path, token_text(OPERATOR, rng().randbytes(SECRET_BYTES)))
    return file
