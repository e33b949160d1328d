"""One authority for all tests, and another one that nobody trusts."""

import itertools
from pathlib import Path

import pytest

from ithaca.cluster.certs.authority import Authority, Issued
from ithaca.model.security.tls import TLS

CLUSTER = "bank"


class Papers:
    """Certificates as they are needed, by an authority in a directory."""

    def __init__(self, directory: Path) -> None:
        """The authority that is there, or else a new one."""
        self.directory = directory
        is_there = (directory / "ca.key").exists()
        self.authority = Authority(directory) if is_there else Authority.make(directory, CLUSTER)
        self._numbers = itertools.count()

    def server(
        self, name: str, *, host: str = "127.0.0.1", cluster: str = CLUSTER, trusts: "Papers | None" = None
    ) -> TLS:
        return self._kept(self.authority.issue_server(cluster, name, [host]), trusts or self)

    def user(self, name: str, *, cluster: str = CLUSTER, trusts: "Papers | None" = None) -> TLS:
        return self._kept(self.authority.issue_user(cluster, name), trusts or self)

    def _kept(self, issued: Issued, trusted: "Papers") -> TLS:
        """Files of their own: contexts are kept for a while by the names of their files."""
        folder = self.directory / str(next(self._numbers))
        folder.mkdir()
        paths = [path.rename(folder / path.name) for path in issued]
        return TLS(trusted.directory / "ca.pem", *paths)

    @property
    def nobody(self) -> TLS:
        """Whoever knows whom to trust, and is nobody in particular."""
        return TLS(self.directory / "ca.pem")


@pytest.fixture(scope="session")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    return Papers(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    """The same names, by an authority that nobody here trusts."""
    return Papers(tmp_path_factory.mktemp("foreign"))
