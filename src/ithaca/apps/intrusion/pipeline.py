"""Intrusion detection from beginning to end: collectors append, Spark judges in the order of the log."""

from collections.abc import Sequence

import ithaca
from ithaca.apps.intrusion import job
from ithaca.apps.intrusion.plain import Alert, detect
from ithaca.apps.intrusion.readings import SCHEMA, SOURCES, Reading, decode, events, readings
from ithaca.apps.pipelines.events import read_all
from ithaca.apps.pipelines.feed import Feed
from ithaca.apps.pipelines.stage import Figures, Stage
from ithaca.spark import from_json


def run(stage: Stage, seed: int, records: int) -> Figures:
    """Append, judge both ways, compare, and look how much of what was planted is found."""
    stage.say(f"{SOURCES} collectors append {records:,} readings")
    with Feed(stage.bootstrap, {source: events(seed, source, records) for source in range(SOURCES)}) as feed:
        feed.finish()
    stage.say("Spark judges each reading by those of its group that the log has before it")
    found = job.detect(from_json(stage.table(minPartitions=2), SCHEMA, keep=("position",))).collect()
    columns = "position INTEGER, area TEXT, sensor INTEGER, packets INTEGER, total INTEGER, squares INTEGER"
    stage.results.write("alerts", columns, found)
    with ithaca.connect(stage.bootstrap) as log:
        held = list(read_all(log))
    stage.claims.log_holds(held, {source: events(seed, source, records) for source in range(SOURCES)})
    at = {record.position: decode(record.value) for record in held}
    alerts = [Alert(*row) for row in stage.results.rows("SELECT * FROM alerts ORDER BY position")]
    stage.claims.same("Spark's alerts are those of plain Python", alerts, detect(at.items()))
    return _figures(stage, [at[alert.position] for alert in alerts], seed, records)


def _figures(stage: Stage, alarming: Sequence[Reading], seed: int, records: int) -> Figures:
    """How good the rule is: what was planted is known."""
    made = [each for source in range(SOURCES) for each in readings(seed, source, records)]
    planted = {(each.reading.source, each.reading.number) for each in made if each.is_intrusion}
    alarms = {(reading.source, reading.number) for reading in alarming}
    worst = stage.results.rows("SELECT area, count(*) FROM alerts GROUP BY area ORDER BY 2 DESC, 1 LIMIT 1")
    return [
        ("intrusions that were planted", f"{len(planted):,}"),
        ("found", f"{len(planted & alarms):,}"),
        ("false alarms", f"{len(alarms - planted):,}"),
        *((f"most alerts: {area}", f"{count:,}") for area, count in worst),
    ]
