"""The rule in Spark: a window over the rows before each one, in the order of the log."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from ithaca.apps.intrusion.plain import DEVIATIONS, WINDOW


def detect(readings: DataFrame) -> DataFrame:
    """Readings that stand out, as `plain.Alert`s; `readings` has their columns and `position`."""
    before = Window.partitionBy("area").orderBy("position").rowsBetween(-WINDOW, -1)
    packets = sf.col("packets").cast("long")
    judged = readings.select(
        "position",
        "area",
        "sensor",
        "packets",
        sf.count("*").over(before).alias("n"),
        sf.sum(packets).over(before).alias("total"),
        sf.sum(packets * packets).over(before).alias("squares"),
        (WINDOW * packets).alias("scaled"),
    )
    above = sf.col("scaled") - sf.col("total")
    spread = WINDOW * sf.col("squares") - sf.col("total") * sf.col("total")
    stands_out = (above > 0) & (above * above > DEVIATIONS * DEVIATIONS * spread)
    return (
        judged.where((sf.col("n") == WINDOW) & stands_out)
        .select("position", "area", "sensor", "packets", "total", "squares")
        .orderBy("position")
    )
