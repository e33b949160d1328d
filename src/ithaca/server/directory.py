"""Which engine a server's directory belongs to.

```
engine    its name as msgpack, in the format of `storage.checked_file`; not there, it is the default one
```

So directories of versions that knew one engine are that engine's, and nothing is written into them.
"""

from typing import Final

import msgspec

from ithaca.model.engine import DEFAULT_ENGINE, EngineName
from ithaca.model.errors import ConfigError, StorageError
from ithaca.storage import checked_file
from ithaca.storage.disk import Disk
from ithaca.storage.recovery import NEW_SUFFIX

NAME: Final = "engine"


def claim(disk: Disk, directory: str, engine: EngineName) -> None:
    """Have the directory be this engine's from now on; `ConfigError` when it is another's. Idempotent."""
    path = f"{directory}/{NAME}"
    try:
        if disk.exists(path):
            owner = checked_file.load_value(disk, path, str)
        elif any(not name.endswith(NEW_SUFFIX) for name in disk.list(directory)):
            owner = DEFAULT_ENGINE
        elif engine == DEFAULT_ENGINE:
            return
        else:
            disk.make_directory(directory)
            checked_file.replace(disk, directory, NAME, msgspec.msgpack.encode(engine))
            return
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror or error}") from error
    if owner != engine:
        raise ConfigError(
            f"{directory} belongs to a server of the engine {owner}, and the cluster's file says {engine}: correct the "
            "file, or give the server a directory of its own"
        )
