"""Who waits for a publication to be ordered: it has its positions before that."""

from ithaca.engines.belfast.speculation.outcomes import PublicationReserved
from ithaca.engines.scalog.ordering.prepared.entries import Publish
from ithaca.model.parts import Published
from ithaca.protocol.codec import Received
from ithaca.runtime.connection import Connection

Asked = tuple[Connection, Received]


class WaitingRequests:
    """Requests by what they publish. A position does not say it: a publication of nothing has that of the next one."""

    def __init__(self) -> None:
        self._waiting: dict[Published, list[Asked]] = {}

    def add(self, entry: Publish, reserved: PublicationReserved, asked: Asked) -> None:
        published = Published(entry.writer, entry.key, entry.owner, reserved.base, reserved.count)
        self._waiting.setdefault(published, []).append(asked)

    def take(self, published: Published) -> list[Asked]:
        """Those that waited for this one, which is ordered. Ones of nothing that look the same are ordered together."""
        return self._waiting.pop(published, [])

    def take_all(self) -> list[Asked]:
        waiting, self._waiting = self._waiting, {}
        return [asked for each in waiting.values() for asked in each]
