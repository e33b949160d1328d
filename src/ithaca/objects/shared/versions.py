"""The index of versions, as far as nothing is waited for."""

from collections.abc import Sequence

from ithaca.model.records import Record
from ithaca.model.units import Duration, optional_seconds
from ithaca.objects.shared.following import Following
from ithaca.objects.version_index import Version, VersionIndex
from ithaca.runtime.checks import check_shard_number


class VersionsBase(Following[None]):
    """What is known here of the objects and their versions."""

    def _set_up(self, prefix: bytes, timeout: Duration | None) -> None:
        """`prefix` is what the keys of all versions begin with."""
        self.timeout = optional_seconds(timeout)
        self._prefix = prefix
        self._index = VersionIndex(prefix)
        self._announced = False
        self._placed: dict[bytes, Version] = {}
        """What was put by this handle and is not indexed yet: the next version goes to the same shard."""

    def __repr__(self) -> str:
        return f"<Versions {self.name!r}, {'open' if self.is_open else 'not open'}, at position {self.covered}>"

    def objects(self, shard: int | None = None) -> list[bytes]:
        """The names that are known here, of one shard if it is named, in order."""
        check_shard_number(shard)
        with self.lock:
            return list(self._index.objects(shard))

    def shards(self) -> dict[int, int]:
        """How many objects have versions in each shard, as is known here."""
        with self.lock:
            return self._index.shards()

    def _newest(self, name: bytes) -> Version | None:
        """The newest version that this handle knows of, by the log or because it has put it."""
        with self.lock:
            return self._placed.get(name) or self._index.newest(name)

    def _put(self, version: Version) -> Version:
        """This was put by this handle."""
        with self.lock:
            if version.position >= self.covered:
                self._placed[version.object] = version
        return version

    def _take(self, records: Sequence[Record], covered: int, live: bool) -> list[None]:
        self._index.add(records)
        self._placed = {name: version for name, version in self._placed.items() if version.position >= covered}
        return []
