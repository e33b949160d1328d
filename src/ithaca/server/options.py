"""What a server runs on, where that is not the usual."""

from dataclasses import dataclass, field

from ithaca.model.view import Address
from ithaca.raft.events import Settings
from ithaca.storage.disk import Disk, OsDisk


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Of servers that keep nothing, or have no Raft, only some of these mean something."""

    disk: Disk = field(default_factory=OsDisk)
    settings: Settings = field(default_factory=Settings)
    """Of Raft."""
    listen_at: Address | None = None
    """If others reach the server at the file's address by way of a proxy or a mapped port."""
