"""Found by Spark itself: the format "ithaca" is there wherever Ithaca and PySpark are installed.

Spark imports every top-level module whose name begins with `pyspark_`, and registers its `DefaultSource`.
"""

from ithaca.spark.source import IthacaDataSource as DefaultSource

__all__ = ["DefaultSource"]
