"""Spark in this process and a Java process beside it: two threads, loopback only, everything in one directory."""

import logging
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ithaca.apps.demo_cast import DemoFailed
from ithaca.model.errors import InvalidInput

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WORDS = "spark.log"
"""What Java and the bridge to it say goes into this file."""
_SETTINGS = {
    "spark.driver.memory": "1g",
    # A job of seconds: what the second compiler gains, it does not live to see.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",  # planning again between stages takes longer than these stages
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}


def check_can_run_spark() -> None:
    """`InvalidInput` says what is missing; asked before anything is started."""
    instead = "Without Spark there are: ithaca demo cluster, ithaca demo embedded"
    if find_spec("pyspark") is None:
        raise InvalidInput(f"this needs Spark: pip install 'pyspark>=4.3,<4.4' 'pandas<3' pyarrow. {instead}")
    home = os.environ.get("JAVA_HOME")
    if not (shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")):
        raise InvalidInput(
            f"Spark needs Java 17 or newer{f', and JAVA_HOME, {home}, has none' if home else ''}: install it with "
            f"your package manager, or set JAVA_HOME. {instead}"
        )


@contextmanager
def local_spark(home: Path, threads: int = 2) -> Iterator["SparkSession"]:
    """A session that knows the format "ithaca"; stopped at the end. Java itself ends with this process.

    What fails in Spark meanwhile is `DemoFailed`.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    from ithaca.spark import register

    home.mkdir(parents=True)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local[{threads}]").appName("ithaca")
    for name, setting in _SETTINGS.items():
        builder = builder.config(name, setting)
    builder = builder.config("spark.local.dir", str(home / "local"))
    builder = builder.config("spark.sql.warehouse.dir", str(home / "warehouse"))
    try:
        with _errors_into(home / WORDS):
            session = builder.getOrCreate()
    except Exception as error:  # py4j and pyspark raise what they like when Java does not start
        words = (home / WORDS).read_text(errors="replace").splitlines()
        raise DemoFailed(f"Spark did not start: {error}. Java's last words: {' | '.join(words[-5:])}") from error
    with _bridge_into(home / WORDS):
        try:
            session.sparkContext.setLogLevel("ERROR")
            register(session)
            yield session
        except PySparkException as error:
            raise DemoFailed(f"Spark failed: {reason_in(str(error))}") from error
        finally:
            session.stop()


@contextmanager
def _bridge_into(path: Path) -> Iterator[None]:
    """The bridge logs every call that an interrupted query leaves unanswered; that is nothing for a terminal."""
    bridge = logging.getLogger("py4j")
    handler = logging.FileHandler(path)
    bridge.addHandler(handler)
    bridge.propagate = False
    try:
        yield
    finally:
        bridge.propagate = True
        bridge.removeHandler(handler)
        handler.close()


@contextmanager
def _errors_into(path: Path) -> Iterator[None]:
    """Processes that are started meanwhile have this file for their standard error."""
    sys.stderr.flush()
    kept = os.dup(2)
    with path.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def reason_in(said: str) -> str:
    """Of all that Spark says of a failure, the line that names it.

    >>> reason_in("[STREAM_FAILED] Return Message: Traceback\\n  File x\\nValueError: no\\n  at java")
    'ValueError: no'
    """
    lines = said.splitlines() or [said]
    return next((line for line in lines if re.match(r"[\w.]+(Error|Exception): ", line)), lines[0])
