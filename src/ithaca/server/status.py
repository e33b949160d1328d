"""A server's state as JSON, for people and for `ithaca status`."""

from collections.abc import Mapping
from typing import Any

import msgspec

Status = Mapping[str, Any]


def encode_status(status: Status) -> bytes:
    return msgspec.json.encode(status)
