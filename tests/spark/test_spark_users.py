"""A user's token on its way through Spark: whoever looks at plans, logs, progress or checkpoints does not find it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import ithaca
from ithaca.model.security.token import write_token
from ithaca.spark import IthacaDataSource
from ithaca.testing import Cluster

RECORDS = 20


@contextmanager
def driver_log(spark: SparkSession) -> Iterator[Any]:
    """All that the driver's JVM logs meanwhile, as a `java.io.StringWriter`."""
    jvm: Any = spark._jvm
    log4j, written = jvm.org.apache.logging.log4j, jvm.java.io.StringWriter()
    layout = log4j.core.layout.PatternLayout.createDefaultLayout()
    appender = log4j.core.appender.WriterAppender.createAppender(layout, None, written, "written", False, False)
    appender.start()
    context = log4j.LogManager.getContext(False)
    root = context.getConfiguration().getRootLogger()
    root.addAppender(appender, log4j.Level.INFO, None)
    spark.sparkContext.setLogLevel("INFO")
    try:
        yield written
    finally:
        spark.sparkContext.setLogLevel("OFF")
        root.removeAppender("written")
        appender.stop()


def explained(frame: DataFrame) -> str:
    told = StringIO()
    with redirect_stdout(told):
        for mode in ("extended", "formatted"):
            frame.explain(mode=mode)
    return told.getvalue()


def test_a_token_is_in_no_plan_log_progress_or_checkpoint(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("ITHACA_TOKEN", "ITHACA_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    spark.dataSource.register(IthacaDataSource)
    with Cluster(users=True) as cluster, driver_log(spark) as log, caplog.at_level("INFO"):
        with ithaca.connect(cluster.bootstrap, token=cluster.token) as operator:
            operator.append_many([b"%d" % number for number in range(RECORDS)])
            token = operator.admin.add_user("spark", ["read"])
        write_token(tmp_path / "token", token)
        said = {"bootstrap": cluster.bootstrap, "startingOffsets": "earliest"}
        with pytest.raises(Exception, match="nobody said who is asking"):
            spark.read.format("ithaca").options(**said).load().count()
        with pytest.raises(Exception, match="no option token") as refused:
            spark.read.format("ithaca").options(**said, token="itk:spark:secret").load().count()
        said["tokenFile"] = str(tmp_path / "token")
        table = spark.read.format("ithaca").options(**said).load()
        assert table.count() == RECORDS
        stream = spark.readStream.format("ithaca").options(**said).load()
        query = (
            stream.writeStream.format("noop")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        progress = [each.json for each in query.recentProgress]
    assert sum(json.loads(each)["numInputRows"] for each in progress) == RECORDS
    logged = log.toString()
    assert "Streaming query made progress" in logged
    kept = [path.read_text("utf-8", "replace") for path in (tmp_path / "checkpoint").rglob("*") if path.is_file()]
    assert kept
    places = {
        "plans": explained(table) + str(query._jsq.toString()),
        "the driver's log": logged + caplog.text,
        "progress": "".join(progress),
        "the checkpoint": "".join(kept),
        "settings": str(spark.sparkContext.getConf().getAll()),
        "an error": str(refused.value),
    }
    secret = token.rpartition(":")[2]
    assert [place for place, text in places.items() if secret in text] == []
