"""Measurements of consumers and groups come to their end, and say what they are there to say."""

from pathlib import Path

import pytest

from ithaca.bench.consumers.run import ConsumerSettings, run_consumers
from ithaca.cluster.temporary import Shape


@pytest.mark.timeout(120)
def test_what_consumers_cost_and_how_groups_hand_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ithaca.bench.consumers.members.SETTLE_S", 0.3)
    shape = Shape(replicas=1, orderers=1, durability="os")
    settings = ConsumerSettings(shape, 20, 2, 1, seconds=2.5, rounds=1, members=2, lease_s=1.0, rate=500)
    report = run_consumers(tmp_path, settings, lambda text: None)
    assert set(report["contenders"]) == {"append", "commit"}
    assert report["commit_by_append_p50"] > 0
    assert report["many"]["rounds"][0]["commits"] >= 20
    (group,) = report["group"]
    assert group["added"]["parts"] == 5
    assert group["killed"]["parts"] in (5, 6)
    assert list(tmp_path.iterdir()) == []
