"""Every decoder of outside bytes, by name: `test_targets` tries them for seconds, `tools/fuzz.py` at length."""

from typing import Any

from tests.fuzz import (
    connection_targets,
    ordering_targets,
    raft_targets,
    security_targets,
    storage_targets,
    text_targets,
    wire_targets,
)
from tests.fuzz.target import Target

TARGETS: dict[str, Target[Any]] = {
    target.name: target
    for target in (
        *wire_targets.TARGETS,
        *ordering_targets.TARGETS,
        *raft_targets.TARGETS,
        *storage_targets.TARGETS,
        *text_targets.TARGETS,
        *security_targets.TARGETS,
        *connection_targets.TARGETS,
    )
}
