"""The regression in Spark: two windows over the order of the log, one for the last prices, one for the sums."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from ithaca.apps.trading.plain import DEVIATIONS, WINDOW
from ithaca.apps.trading.ticks import PAIRS

WIDE = "decimal(38,0)"
"""For products of four sums: they do not fit into 64 bits, and must stay exact."""


def points(ticks: DataFrame) -> DataFrame:
    """Position, pair, and the last prices x and y, at each tick from when both stocks have one."""
    sides = [(stock, pair, side) for pair, stocks in PAIRS.items() for side, stock in enumerate(stocks)]
    pairs = ticks.sparkSession.createDataFrame(sides, "stock string, pair string, side int")
    so_far = Window.partitionBy("pair").orderBy("position").rowsBetween(Window.unboundedPreceding, Window.currentRow)

    def last(side: int) -> Column:
        price = sf.when(sf.col("side") == side, sf.col("price_cents").cast("long"))
        return sf.last(price, ignorenulls=True).over(so_far)

    paired = ticks.join(sf.broadcast(pairs), "stock")
    return paired.select("position", "pair", last(0).alias("x"), last(1).alias("y")).dropna()


def signals(ticks: DataFrame) -> DataFrame:
    """Points off the line, as `plain.Signal`s; `ticks` has their columns and `position`."""
    before = Window.partitionBy("pair").orderBy("position").rowsBetween(-WINDOW, -1)
    x, y = sf.col("x"), sf.col("y")
    products = {"sx": x, "sy": y, "sxx": x * x, "sxy": x * y, "syy": y * y}
    sums = {name: sf.sum(product).over(before) for name, product in products.items()}
    full = points(ticks).withColumns({"n": sf.count("*").over(before), **sums}).where(sf.col("n") == WINDOW)
    lines = full.select(
        "position",
        "pair",
        "x",
        "y",
        sf.expr(f"{WINDOW} * sxy - sx * sy").alias("numerator"),
        sf.expr(f"{WINDOW} * sxx - sx * sx").alias("denominator"),
        sf.expr(f"{WINDOW} * syy - sy * sy").alias("spread"),
        sf.expr(f"{WINDOW} * x - sx").alias("dx"),
        sf.expr(f"{WINDOW} * y - sy").alias("dy"),
    )
    n, d, spread, dx, dy = (sf.col(name).cast(WIDE) for name in ("numerator", "denominator", "spread", "dx", "dy"))
    residual = dy * d - n * dx
    is_off = residual * residual > sf.lit(DEVIATIONS * DEVIATIONS).cast(WIDE) * d * (spread * d - n * n)
    return lines.where(is_off).select("position", "pair", "x", "y", "numerator", "denominator").orderBy("position")
