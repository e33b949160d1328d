"""An operator: a cluster on one machine, its shards, a killed server, from the docs alone."""

from pathlib import Path

import pytest
from tests.cluster.free_base import free_base
from tests.roles.pages import replay


@pytest.mark.campaign
def test_the_guide_runs_as_it_is_printed(tmp_path: Path) -> None:
    said = replay("docs/guides/operator.md", free_base(12), tmp_path)
    assert "stopped: no server is left" in said
