"""Settings of a Spark session that suit the log: none is needed, and none changes a result."""

from collections.abc import Mapping
from typing import Final

SESSION_SETTINGS: Final[Mapping[str, str]] = {
    # The sink gets rows as they come, and not 10,000 at once: they are written while the next ones are read.
    "spark.sql.execution.arrow.maxBytesPerBatch": "1m",
}
"""For a builder, `builder.config(map=SESSION_SETTINGS)`, or one by one for `spark.conf.set`."""

LOCAL_CHECKPOINTS: Final[Mapping[str, str]] = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    )
}
"""Where checkpoints are on a file system whose rename is atomic: a micro-batch starts some ten processes fewer."""
