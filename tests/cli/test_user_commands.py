"""`ithaca user`: users are added, changed, listed and revoked, and tokens are where they are wanted."""

import json
from pathlib import Path

from tests.cli.command import ithaca as run
from tests.cli.command import json_lines

from ithaca.cluster.certs.authority import Authority
from ithaca.model.security.tls import VARIABLES
from ithaca.testing import Cluster


def test_users_come_and_go(tmp_path: Path) -> None:
    with Cluster(replicas=1, users=True) as cluster:
        assert cluster.token is not None
        where, operator = ("-b", cluster.bootstrap), {"ITHACA_TOKEN": cluster.token}
        added = json.loads(
            run("user", "add", "alice", "read", "append:a/", "--json", "--parts", "3", *where, env=operator).stdout
        )
        alice = {"ITHACA_TOKEN": added["token"]}
        (listed,) = json_lines(run("user", "list", "--json", *where, env=operator).stdout)
        assert (listed["name"], listed["rights"], listed["tokens"]) == ("alice", ["read", "append:a/"], 1)
        assert listed["limits"] == [0, 0, 0, 0, 0, 3]
        assert "no right to trim" in run("trim", "--before", "1", *where, status=1, env=alice).stderr.decode()
        run("user", "grant", "alice", "trim", "append", *where, env=operator)
        run("user", "revoke", "alice", "append:a/", *where, env=operator)
        run("user", "limit", "alice", "--bytes-per-s", "10M", *where, env=operator)
        shown = run("user", "list", *where, env=operator).stdout.decode()
        assert "read append trim" in shown
        assert "bytes_per_s=10485760" in shown
        path = tmp_path / "alice.token"
        told = run("user", "rotate", "alice", "--token-file", str(path), *where, env=operator).stdout.decode()
        assert "itk:" not in told
        assert path.stat().st_mode & 0o777 == 0o600
        run("append", *where, stdin=b"hello\n", env={"ITHACA_TOKEN_FILE": str(path)})
        assert "no right to admin" in run("user", "list", *where, status=1, env=alice).stderr.decode()
        run("user", "revoke", "alice", *where, env=operator)
        refused = run("append", *where, "--timeout", "3", status=1, stdin=b"x\n", env={"ITHACA_TOKEN_FILE": str(path)})
        assert "token is not valid" in refused.stderr.decode()
        assert b"itk:" not in refused.stderr + refused.stdout


def test_a_user_is_known_by_its_certificate(tmp_path: Path) -> None:
    with Cluster(tmp_path / "cluster", replicas=1, tls=True, users=True) as cluster:
        assert cluster.token is None
        operator = dict(zip(VARIABLES, _files(cluster), strict=True))
        where = ("-b", cluster.bootstrap)
        issued = Authority(cluster.directory / "tls").issue_user(cluster.file.name, "bob")
        bob = operator | {"ITHACA_TLS_CERTIFICATE": str(issued[0]), "ITHACA_TLS_KEY": str(issued[1])}
        refused = run("append", *where, "--timeout", "3", status=1, stdin=b"x\n", env=bob).stderr.decode()
        assert "bob is no user of this cluster" in refused
        told = run("user", "add", "bob", "append", "--certificate", *where, env=operator).stdout.decode()
        assert told == "user bob: it is known by its certificate\n"
        run("append", *where, stdin=b"hello\n", env=bob)
        assert "no right to read" in run("read", *where, status=1, env=bob).stderr.decode()
        run("user", "revoke", "bob", *where, env=operator)
        run("append", *where, "--timeout", "3", status=1, stdin=b"x\n", env=bob)


def _files(cluster: Cluster) -> tuple[str, ...]:
    assert cluster.tls is not None
    return cluster.tls.files
