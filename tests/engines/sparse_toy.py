"""The toy with empty positions: one before each batch, and now and then some behind it, below the tail."""

from tests.engines.toy import Toy, ToyServer

from ithaca.engines import registry
from ithaca.model.config.cluster import ClusterFile
from ithaca.model.engine import Feature
from ithaca.model.server_place import ServerPlace
from ithaca.server.options import ServerOptions

GAP_EVERY = 3
"""After so many batches, so many positions behind the batch stay empty."""


class SparseServer(ToyServer):
    """Positions of records rise, and records of one batch are next to each other: nothing else is promised."""

    def place(self, count: int) -> tuple[int, int]:
        start = self._tail + 1
        behind = 0 if (len(self._batches) + 1) % GAP_EVERY else GAP_EVERY
        return start, start + count + behind


class SparseToy(Toy):
    """Under a name of its own."""

    name = "sparse-toy"
    features = frozenset({Feature.TRIM})

    def make_server(
        self, file: ClusterFile, place: ServerPlace, directory: str, options: ServerOptions
    ) -> SparseServer:
        return SparseServer(file, place, options.listen_at)


registry.register("sparse-toy", SparseToy())
