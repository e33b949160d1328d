"""Keeping and moving what a log holds: backups, restores, copies from log to log, and what is left of a damaged one.

```python
import ithaca
import ithaca.archive

with ithaca.connect("127.0.0.1:7600") as log:
    ithaca.archive.back_up(log, "/backups/events")
```

All of it works by the public interface and the batch format, so on every engine and on the log of a directory alike.
A program that waits for nothing calls these in a thread of its own, with a log of `ithaca.open` or `ithaca.connect`.

Read `folder` first, a backup as files, in one of the `places` where these may lie. `backup` makes one up to the tail as
it was at the beginning, adds to it, and checks it. `copying` appends what another log or a backup holds, by a session,
so that whatever ends it, it goes on where it was and nothing is there twice. `salvaging` takes what can be read out of
a damaged log of a directory. `progress` is what whoever waits is told,
`pacing` spares others, `checks` refuses what is no log.
"""

from ithaca.archive.backup import Backup, Fault, back_up, verify_backup
from ithaca.archive.copying import Copied, copy_log, restore
from ithaca.archive.progress import Done
from ithaca.archive.salvaging import LeftOut, salvage

__all__ = [
    "Backup",
    "Copied",
    "Done",
    "Fault",
    "LeftOut",
    "back_up",
    "copy_log",
    "restore",
    "salvage",
    "verify_backup",
]
