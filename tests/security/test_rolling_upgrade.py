"""From a cluster without TLS to one that speaks nothing else, in the three steps of docs/security.md, under load."""

import threading
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

import ithaca
from ithaca.cluster.certs.local import secured
from ithaca.model.config.tls import TlsMode
from ithaca.model.errors import AuthenticationFailed
from ithaca.testing import Cluster


class Load:
    """Appends numbers one after the other, from a thread, until it is told to end."""

    def __init__(self, log: ithaca.Log, first: int) -> None:
        self._log = log
        self._over = threading.Event()
        self._grown = threading.Condition()
        self.next = first
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._over.is_set():
                self._log.append(b"%d" % self.next, timeout=30)
                with self._grown:
                    self.next += 1
                    self._grown.notify_all()
        except BaseException as error:
            self.error = error

    def goes_on(self) -> None:
        """Wait until something more was appended."""
        with self._grown:
            wanted = self.next + 2
            assert self._grown.wait_for(lambda: self.next >= wanted or self.error is not None, 60)
        assert self.error is None

    def end(self) -> int:
        """The next number."""
        self._over.set()
        self._thread.join()
        assert self.error is None
        return self.next


@pytest.mark.parametrize("engine", ["scalog", "raft"])
def test_a_cluster_gets_tls_in_three_steps_under_load(tmp_path: Path, engine: str) -> None:
    orderers = 3 if engine == "raft" else 1
    with Cluster(tmp_path, engine=engine, orderers=orderers) as cluster, ithaca.connect(cluster.bootstrap) as plain:
        load = Load(plain, 0)
        for step, mode in enumerate(get_args(TlsMode), 1):
            if mode == "required":  # by now every client has been changed
                number = load.end()
                private = ithaca.connect(cluster.bootstrap, tls=cluster.tls)
                load = Load(private, number)
            file = secured(tmp_path, cluster.file)
            assert file.tls is not None
            cluster.file = replace(file, tls=replace(file.tls, mode=mode))
            for name in cluster.names:
                cluster.stop_server(name)
                cluster.start_server(name)
                cluster.wait_healthy()
                load.goes_on()
            assert step == get_args(TlsMode).index(mode) + 1
        number = load.end()
        with private, private.read_range(1, private.tail()) as records:
            assert [int(record.value) for record in records] == list(range(number))
        with pytest.raises(AuthenticationFailed, match="speaks TLS alone"):
            ithaca.connect(cluster.bootstrap, timeout=5)
