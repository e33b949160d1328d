"""The certificates of a cluster on this machine, whose authority is in its directory."""

from dataclasses import replace
from pathlib import Path
from typing import Final

from ithaca.cluster.layout import servers_of, spares_of
from ithaca.model.config.cluster import ClusterFile
from ithaca.model.config.tls import ClusterTls
from ithaca.model.security.users import OPERATOR

DIRECTORY: Final = "tls"


def secured(directory: Path, file: ClusterFile) -> ClusterFile:
    """A new cluster as one with TLS: with an authority in its directory, and a certificate for each server."""
    from ithaca.cluster.certs.authority import Authority

    if not (directory / DIRECTORY / "ca.key").exists():
        Authority.make(directory / DIRECTORY, file.name)
    file = replace(file, tls=ClusterTls(directory=str(directory.absolute())))
    certify(directory, file)
    return file


def certify(directory: Path, file: ClusterFile) -> None:
    """Issue certificates to servers of the file that have none, and to the operator. A cluster whose authority is
    elsewhere gets them there, and one without TLS needs none."""
    if file.tls is None or not (directory / DIRECTORY / "ca.key").exists():
        return
    from ithaca.cluster.certs.authority import Authority

    authority = Authority(directory / DIRECTORY)
    if not (directory / DIRECTORY / f"{OPERATOR}.pem").exists():
        authority.issue_user(file.name, OPERATOR)
    for place in servers_of(file) + spares_of(file):
        if not (directory / DIRECTORY / f"{place.name}.pem").exists():
            authority.issue_server(file.name, place.name, [place.address.host])
