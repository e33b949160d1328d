"""What a server says of itself first, to whoever it dials and to whoever dials it."""

from collections.abc import Callable
from uuid import UUID

from ithaca.model.config.cluster import ClusterFile
from ithaca.protocol.greeting import FEATURES, VERSION_MAX, VERSION_MIN, Hello, Role, Welcome


class Greeter:
    """The greetings of one server."""

    def __init__(self, file: ClusterFile, role: Role, name: str, log: Callable[[], UUID | None] = lambda: None) -> None:
        """`log` is the log that it belongs to, once that is known."""
        self._file = file
        self._role: Role = role
        self._name = name
        self._log = log

    def hello(self) -> Hello:
        """To whoever it dials."""
        return Hello(VERSION_MIN, VERSION_MAX, self._role, self._name, FEATURES, self._log(), engine=self._file.engine)

    def welcome(self) -> Welcome:
        """To whoever dials it."""
        file = self._file
        return Welcome(
            VERSION_MAX, self._role, self._name, FEATURES, self._log(), durability=file.durability, engine=file.engine
        )
