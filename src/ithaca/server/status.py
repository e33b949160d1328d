"""A server's state as JSON, for people and for `ithaca status`, and what its port answers to HTTP."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry

from ithaca.runtime.listener import HttpAnswer
from ithaca.runtime.metrics import exposition

Status = Mapping[str, Any]


def encode_status(status: Status) -> bytes:
    return msgspec.json.encode(status)


def answer_http(
    path: str, status: Callable[[], Status], registry: CollectorRegistry | None = None
) -> HttpAnswer | None:
    """`/health`, and `/metrics` of a server that has some; None for anything else."""
    if path == "/metrics" and registry is not None:
        return exposition(registry)
    return HttpAnswer(200, "application/json", encode_status(status())) if path == "/health" else None
