"""Which replica of which log a server is, as its directory says (`engines.scalog.storage.replica_meta`)."""

import errno
import logging
from collections.abc import Callable, Sequence
from uuid import UUID

from ithaca.engines.scalog.messages.reporting import Joined
from ithaca.engines.scalog.storage import replica_meta
from ithaca.model.errors import Fenced, IthacaError
from ithaca.model.view import Address
from ithaca.runtime.machine import wall_us
from ithaca.storage.disk import Disk

_log = logging.getLogger("ithaca.replica")


class Identity:
    """One start of one replica. It blocks: make it in a thread."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        shard: int,
        replica: int,
        enlisted_as: Address | None,
        fail: Callable[[IthacaError], None],
        beside: Sequence[str] = (),
    ) -> None:
        """`enlisted_as`: of a spare that has just been told who it is, or was told earlier. `beside`: files that the
        engine has in the directory."""
        self._disk = disk
        self._directory = directory
        self._replica = replica
        self._fail = fail
        meta = replica_meta.start(disk, directory, shard, replica, now_us=wall_us(), address=enlisted_as, beside=beside)
        self.log: UUID | None = meta.log
        self.boot = meta.boot
        self.address = meta.address
        """What it enlisted as, whatever it is started as now; None of a replica that was no spare."""
        self.was_added = meta.was_added
        """Whether the shard has had this replica: others may count on what it holds."""
        self.kept_aside = replica_meta.kept_aside(disk, directory)
        if enlisted_as is not None and meta.address not in (None, enlisted_as):
            _log.warning("this replica is started at %s: others know it as %s", enlisted_as, meta.address)

    def joined(self, joined: Joined) -> bool:
        """Write down which log it is, and that the shard has this replica; False when a sync failed."""
        was_added = self.was_added or joined.summary.shard.find(self._replica) is not None
        if self.log is None or was_added != self.was_added:
            try:
                if not self._noted(
                    lambda: replica_meta.bind(self._disk, self._directory, joined.log, was_added=was_added)
                ):
                    return False
            except OSError as error:
                if self.log is None or error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    raise
                _log.warning("that this replica was added cannot be written down before its next start: %s", error)
            self.log, self.was_added = joined.log, was_added
        return True

    def start_again(self) -> int | None:
        """The next boot, durably; None when it cannot be written down."""
        try:
            if not self._noted(lambda: replica_meta.skip_boots(self._disk, self._directory, self.boot + 1)):
                return None
        except OSError as error:
            _log.warning("the next boot cannot be written down: %s", error)
            return None
        self.boot += 1
        return self.boot

    def skip_boots(self, boot: int) -> None:
        """A later start of this replica is known."""
        if self.log is None:  # else another server is this replica now, and must not be pushed out
            self._noted(lambda: replica_meta.skip_boots(self._disk, self._directory, boot))

    def _noted(self, note: Callable[[], object]) -> bool:
        """Write down something about this replica; False when a sync failed, which ends it as any failed sync does."""
        try:
            note()
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            self._fail(Fenced(f"{self._directory}: {error.strerror}; nothing more is written, replace this replica"))
            return False
        return True
