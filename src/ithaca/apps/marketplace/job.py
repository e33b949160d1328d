"""The analytics in Spark, from activities as columns."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from ithaca.apps.marketplace.plain import RECOMMENDED


def visitors_by_hour(activities: DataFrame) -> DataFrame:
    """Hour, visitors that were seen in it."""
    hour = sf.expr("at_s DIV 3600").alias("hour")
    return activities.groupBy(hour).agg(sf.count_distinct("visitor").alias("visitors")).orderBy("hour")


def sales_by_product(activities: DataFrame) -> DataFrame:
    """Product, how often it was viewed, how often bought."""
    counts = [
        sf.count_if(sf.col("action") == action).alias(name) for action, name in (("view", "viewed"), ("buy", "bought"))
    ]
    return activities.groupBy("product").agg(*counts).orderBy("product")


def recommendations(activities: DataFrame) -> DataFrame:
    """Product, rank, another product, orders that have both: a join of all purchases with themselves."""
    bought = activities.where("action = 'buy'").select("order_id", "product").distinct()
    others = bought.withColumnRenamed("product", "other")
    together = bought.join(others, "order_id").where("product <> other").groupBy("product", "other")
    best_first = Window.partitionBy("product").orderBy(sf.desc("orders"), "other")
    ranked = together.agg(sf.count("*").alias("orders")).withColumn("rank", sf.row_number().over(best_first))
    return (
        ranked.where(sf.col("rank") <= RECOMMENDED)
        .select("product", "rank", "other", "orders")
        .orderBy("product", "rank")
    )
