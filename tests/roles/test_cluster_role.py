"""A backend engineer: a cluster, connected to from programs, from the docs alone."""

from pathlib import Path

import pytest
from tests.cluster.free_base import free_base
from tests.roles.pages import replay

from ithaca.testing import Cluster


def test_the_programs_of_the_guide_run_as_they_are_printed(tmp_path: Path) -> None:
    with Cluster(shards=2) as cluster:
        replay("docs/guides/cluster.md", int(cluster.bootstrap.rpartition(":")[2]), tmp_path, "--python-only")


@pytest.mark.campaign
def test_the_guide_runs_with_its_commands(tmp_path: Path) -> None:
    said = replay("docs/guides/cluster.md", free_base(7), tmp_path)
    assert "healthy" in said
