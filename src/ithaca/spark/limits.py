"""Bounds of Spark's tasks and drivers; those of the log are in `model.limits`."""

from ithaca.model.limits import MIB

SPARK_PARTITION_BYTES = 32 * MIB
"""About what one Spark task reads, unless an option says otherwise: worth its start, and little enough that all cores
have one.
"""
SPARK_TASK_BYTES = 4 * MIB
"""A task that has less is not made for a core that would be idle: starting it takes as long as reading so much."""
SPARK_PARTITION_RECORDS = 1 << 20
"""Records of one Spark task, however small they are."""
SPARK_BATCH_BYTES = MIB
"""About what one Arrow batch has that Spark is handed: smaller ones are joined."""
SPARK_CHUNK_BYTES = 4 * MIB
"""What a task fetches at once, while Spark works on the chunk before."""
SPARK_PART_TTL_S = 86_400.0
"""How long what a task wrote waits for the commit, unless an option says otherwise."""
SPARK_DRIVER_TIMEOUT_S = 10.0
"""How long a driver waits for the cluster before it says that it cannot be reached."""
SPARK_SIZE_SAMPLES = 16
"""Records that are looked at to estimate how many fit into a number of bytes."""
