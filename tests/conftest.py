"""Settings that all tests share."""

import os
import signal
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

# No deadline: a shared disk may take a hundred times longer from one sync to the next. The examples are the
# same in every run, so that a failure is one everywhere; HYPOTHESIS_PROFILE=explore looks for new ones.
settings.register_profile("repeatable", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

# Shells start background jobs with Ctrl-C ignored, and processes hand that on: tests that interrupt others need it.
signal.signal(signal.SIGINT, signal.default_int_handler)


TOGETHER = (
    "tests/spark/",
    "tests/torture/test_torture.py",
    "tests/bench/test_cluster_benches.py",
    "tests/cluster/test_damaged_files.py",
    "tests/cluster/test_cluster_damage.py",
    "tests/objects/test_on_engines.py",
)
"""Tests that share what is costly to make: one worker runs all of a kind, the largest kind first."""


class TestsTogether(LoadScopeScheduling):  # type: ignore[misc]
    """Hands out tests one by one, but for those that belong together."""

    __test__ = False

    def _split_scope(self, nodeid: str) -> str:
        return next((each for each in TOGETHER if nodeid.startswith(each)), nodeid)

    def remove_node(self, node: Any) -> str | None:
        """Forget a worker; one that crashed fails the test that it was at, and others run what it had left.

        The parent hands everything out again: done work, after which others wait forever, and the test that crashed.
        """
        workload = self.assigned_work.pop(node)
        left = [(unit, test) for unit in workload.values() for test, done in unit.items() if not done]
        if not left:
            return None
        unit, crashed = left[0]
        unit[crashed] = True
        self.workqueue.update({scope: unit for scope, unit in workload.items() if False in unit.values()})
        for other in self.assigned_work:
            self._reschedule(other)
        return str(crashed)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> TestsTogether:
    return TestsTogether(config, log)
