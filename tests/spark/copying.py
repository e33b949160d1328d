"""A driver of its own that copies one log into another by a streaming query, to be killed."""

import os
import subprocess
import sys
from pathlib import Path

COPY = """
import sys
from pyspark.sql import SparkSession

source, target, checkpoint, master, offsets, trigger = sys.argv[1:]
spark = (
    SparkSession.builder.master(master).config("spark.ui.enabled", "false").config("spark.driver.memory", "1g")
    .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
)
stream = spark.readStream.format("ithaca").option("bootstrap", source).option("startingOffsets", "earliest")
rows = stream.option("maxOffsetsPerTrigger", offsets).option("minPartitions", 2).load().select("key", "value")
writing = rows.writeStream.format("ithaca").option("bootstrap", target).option("checkpointLocation", checkpoint)
if trigger == "available":
    writing = writing.trigger(availableNow=True)
writing.start().awaitTermination()
"""


def start_copy(
    source: str, target: str, checkpoint: Path, said: Path, *, master: str, offsets: int, trigger: str
) -> "subprocess.Popen[bytes]":
    """In a session of its own; `trigger` is "available" for what is there now, or "always"."""
    command = [sys.executable, "-c", COPY, source, target, str(checkpoint), master, str(offsets), trigger]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    with said.open("ab") as output:
        return subprocess.Popen(command, env=environment, start_new_session=True, stdout=output, stderr=output)
