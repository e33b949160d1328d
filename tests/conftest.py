"""Settings that all tests share."""

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

# No deadline: a shared disk may take a hundred times longer from one sync to the next. The examples are the
# same in every run, so that a failure is one everywhere; HYPOTHESIS_PROFILE=explore looks for new ones.
settings.register_profile("repeatable", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

# Shells start background jobs with Ctrl-C ignored, and processes hand that on: tests that interrupt others need it.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spark's tests first: one worker runs them all, one after the other, while the others run everything else."""
    items.sort(key=lambda item: item.get_closest_marker("xdist_group") is None)
