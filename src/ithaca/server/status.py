"""A server's state as JSON, for people and for `ithaca status`."""

from collections.abc import Mapping
from typing import Any

import msgspec

from ithaca.model.view import Orderers

Status = Mapping[str, Any]


def encode_status(status: Status) -> bytes:
    return msgspec.json.encode(status)


def orderers_status(orderers: Orderers) -> Status:
    """Where the orderers are, as a server heard last: clients that know none any more ask for this."""
    return {"entry": orderers.entry, "addresses": [str(address) for address in orderers.addresses]}
