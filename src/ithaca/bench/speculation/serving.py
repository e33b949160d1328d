"""Runs one orderer of belfast whose windows have another length:
`python -m ithaca.bench.speculation.serving CONFIG NUMBER DIRECTORY ROUNDS`."""

import sys

from ithaca.engines import registry
from ithaca.engines.belfast.server.orderer.leading import SlotLeaderService
from ithaca.engines.scalog.ordering.leader import CutProposer
from ithaca.model.config.cluster import load_cluster
from ithaca.model.server_place import ServerPlace
from ithaca.server.options import ServerOptions
from ithaca.server.process import run_server


def main(config: str, number: str, directory: str, rounds: str) -> int:
    usual = SlotLeaderService._make_proposer

    def with_rounds(service: SlotLeaderService) -> CutProposer:
        service._settings = service._settings._replace(rounds=int(rounds))
        return usual(service)

    SlotLeaderService._make_proposer = with_rounds  # type: ignore[assignment, method-assign]
    file = load_cluster(config)
    place = ServerPlace("orderer", int(number), file.orderer(int(number)).address)
    server = registry.engine(file.engine).make_server
    return run_server(lambda: server(file, place, directory, ServerOptions()), "orderer", number)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
