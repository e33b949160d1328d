"""Runs one server of a variant: `python -m ithaca.bench.raft.serving CONFIG NUMBER DIRECTORY VARIANT`."""

import sys

from ithaca.bench.raft.variants import VARIANTS
from ithaca.model.config.cluster import load_cluster
from ithaca.server.process import run_server


def main(config: str, number: str, directory: str, variant: str) -> int:
    file = load_cluster(config)
    return run_server(lambda: VARIANTS[variant](file, int(number), directory), "orderer", number)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
