"""The marketplace from beginning to end: a day's log, its shards finalized, analysed while the next ones fill."""

import ithaca
from ithaca.apps.marketplace import job
from ithaca.apps.marketplace.activity import PRODUCTS, SCHEMA, SOURCES, activities, decode, events
from ithaca.apps.marketplace.orders import ORDERS_MAX, orders_of, sell
from ithaca.apps.marketplace.plain import analyse
from ithaca.apps.pipelines.events import read_all
from ithaca.apps.pipelines.feed import Feed
from ithaca.apps.pipelines.stage import Figures, Stage
from ithaca.spark import from_json

FINALIZE_AFTER = 0.6
"""The shards are replaced when this part of all records is acknowledged."""
HOLD_AT = 0.8
"""So much is appended until they are; the rest is for the new one."""


def run(stage: Stage, seed: int, records: int) -> Figures:
    """Append, finalize, analyse both ways, compare."""
    stage.say(f"{SOURCES} web servers append {records:,} activities")
    sources = {source: events(seed, source, records) for source in range(SOURCES)}
    with Feed(stage.bootstrap, sources, hold_at=round(HOLD_AT * records)) as feed:
        feed.wait_for(round(FINALIZE_AFTER * records))
        finalized = stage.replace_shards()
        feed.go_on()
        stage.say(f"shards {finalized} are finalized, a new one takes what comes; Spark analyses the finalized ones")
        _analyse(stage, finalized)
        feed.finish()
    return [*_check(stage, finalized, seed, records), *_sell(stage, seed, records)]


def _sell(stage: Stage, seed: int, records: int) -> Figures:
    """The same day's orders once more, against a stock that does not suffice: on a store in the same log."""
    orders = [orders_of(activities(seed, source, records))[:ORDERS_MAX] for source in range(SOURCES)]
    stage.say(f"{SOURCES} web servers place {sum(map(len, orders))} orders on a store: who comes first is served")
    sold = sell(stage.bootstrap, orders, range(PRODUCTS))
    stage.claims.hold(
        f"{sold.placed} orders took {sold.pieces} pieces, {sold.refused} came late: each piece is in stock or in one"
    )
    return [("orders placed, and refused as sold out", f"{sold.placed}, {sold.refused}")]


def _analyse(stage: Stage, finalized: tuple[int, ...]) -> None:
    """Results go where the shop reads them: into its database."""
    finished = from_json(stage.shards(finalized), SCHEMA, keep=()).persist()
    results = stage.results
    results.write("visitors", "hour INTEGER, visitors INTEGER", job.visitors_by_hour(finished).collect())
    results.write("sales", "product INTEGER, viewed INTEGER, bought INTEGER", job.sales_by_product(finished).collect())
    results.write(
        "recommendations",
        "product INTEGER, rank INTEGER, other INTEGER, orders INTEGER",
        job.recommendations(finished).collect(),
    )
    finished.unpersist()


def _check(stage: Stage, finalized: tuple[int, ...], seed: int, records: int) -> Figures:
    with ithaca.connect(stage.bootstrap) as log:
        held = list(read_all(log))
    stage.claims.log_holds(held, {source: events(seed, source, records) for source in range(SOURCES)})
    analysed = [decode(record.value) for record in held if record.shard in finalized]
    plain, results = analyse(analysed), stage.results
    stage.claims.same(
        f"visitors by hour of {len(analysed):,} activities in shards {finalized} are those of plain Python",
        results.rows("SELECT * FROM visitors ORDER BY hour"),
        plain.visitors,
    )
    stage.claims.same(
        "so are views and sales of every product", results.rows("SELECT * FROM sales ORDER BY product"), plain.sales
    )
    stage.claims.same(
        "so is every recommendation",
        results.rows("SELECT * FROM recommendations ORDER BY product, rank"),
        plain.recommendations,
    )
    return [
        ("activities in finalized shards", f"{len(analysed):,}"),
        ("activities that came meanwhile and after", f"{len(held) - len(analysed):,}"),
        ("visitors in the busiest hour", f"{max(visitors for _, visitors in plain.visitors):,}"),
        ("recommendations", f"{len(plain.recommendations):,}"),
        *_most_sold(stage),
    ]


def _most_sold(stage: Stage) -> Figures:
    """What the shop's page would ask its database."""
    best = stage.results.rows(
        "SELECT s.product, s.bought, r.other, r.orders FROM sales s JOIN recommendations r USING (product) "
        "WHERE r.rank = 1 ORDER BY s.bought DESC, s.product LIMIT 1"
    )
    return [
        (f"product {product}, sold {bought} times, is bought with", f"product {other}, {orders} times")
        for product, bought, other, orders in best
    ]
