"""Certificates that are not valid any more, or not yet."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.security.conftest import CLUSTER, Papers

from ithaca.cluster.certs import authority
from ithaca.model.security.tls import TLS


def moved(papers: Papers, name: str, by: timedelta, monkeypatch: pytest.MonkeyPatch, cluster: str = CLUSTER) -> TLS:
    """The certificate of a server that was made so much earlier or later."""

    class Clock(datetime):
        @classmethod
        def now(cls, tz: object = None) -> "Clock":
            real = datetime.now(UTC) + by
            return cls(real.year, real.month, real.day, real.hour, real.minute, real.second, tzinfo=UTC)

    with monkeypatch.context() as patch:
        patch.setattr(authority, "datetime", Clock)
        issued = papers.authority.issue_server(cluster, name, ["127.0.0.1"], days=1)
    return TLS(Path(str(papers.directory)) / "ca.pem", issued.certificate, issued.key)
