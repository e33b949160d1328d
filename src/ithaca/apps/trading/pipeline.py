"""Trading from beginning to end: exchanges append prices, Spark regresses pairs of stocks in the order of the log."""

import ithaca
from ithaca.apps.pipelines.events import read_all
from ithaca.apps.pipelines.feed import Feed
from ithaca.apps.pipelines.stage import Figures, Stage
from ithaca.apps.trading import job, plain
from ithaca.apps.trading.ticks import PAIRS, SCHEMA, SOURCES, decode, events
from ithaca.spark import from_json

BATCH_RECORDS = 20
"""Few, so that prices of both exchanges alternate."""


def run(stage: Stage, seed: int, records: int) -> Figures:
    """Append, regress both ways, compare."""
    stage.say(f"{SOURCES} exchanges append {records:,} prices of {2 * len(PAIRS)} stocks")
    sources = {source: events(seed, source, records) for source in range(SOURCES)}
    with Feed(stage.bootstrap, sources, BATCH_RECORDS) as feed:
        feed.finish()
    stage.say(f"Spark regresses {len(PAIRS)} pairs over the last {plain.WINDOW} points, at every price")
    found = job.signals(from_json(stage.table(minPartitions=2), SCHEMA, keep=("position",))).collect()
    columns = "position INTEGER, pair TEXT, x INTEGER, y INTEGER, numerator INTEGER, denominator INTEGER"
    stage.results.write("signals", columns, found)
    with ithaca.connect(stage.bootstrap) as log:
        held = list(read_all(log))
    stage.claims.log_holds(held, {source: events(seed, source, records) for source in range(SOURCES)})
    signals = [plain.Signal(*row) for row in stage.results.rows("SELECT * FROM signals ORDER BY position")]
    expected = plain.signals((record.position, decode(record.value)) for record in held)
    stage.claims.same("Spark's signals, with their slopes, are those of plain Python", signals, expected)
    return [("signals", f"{len(signals):,}"), *_slopes(stage)]


def _slopes(stage: Stage) -> Figures:
    """Of each pair the slope at its last signal."""
    last = stage.results.rows(
        "SELECT pair, count(*), numerator, denominator, max(position) FROM signals GROUP BY pair ORDER BY pair"
    )
    return [
        (f"{pair}, {' and '.join(PAIRS[pair])}: {count} signals, slope at the last", f"{numerator / denominator:.2f}")
        for pair, count, numerator, denominator, _ in last
    ]
