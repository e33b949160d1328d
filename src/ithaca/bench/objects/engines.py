"""The same work on several engines, beside each other: in turns within each round."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rich.table import Table

from ithaca.bench.measure import Sample, ratios, summarize
from ithaca.bench.objects.place import Target
from ithaca.model.engine import EngineName

Contenders = dict[str, Callable[[], Sample]]
Samples = dict[str, list[Sample]]


@dataclass(slots=True)
class Lineup:
    """Who takes turns, and with whose rate whose is compared."""

    contenders: Contenders = field(default_factory=dict)
    peers: dict[str, str] = field(default_factory=dict)

    def add(self, other: "Lineup", engine: EngineName = "") -> None:
        """Those of another one, under the name of their engine where there are several."""
        self.contenders |= {named(engine, name): each for name, each in other.contenders.items()}
        self.peers |= {named(engine, name): named(engine, peer) for name, peer in other.peers.items()}


def named(engine: EngineName, work: str) -> str:
    """A contender among those of several engines.

    >>> named("raft", "put 1"), named("", "put 1")
    ('raft: put 1', 'put 1')
    """
    return f"{engine}: {work}" if engine else work


def on_engines(targets: Mapping[EngineName, Target], of_one: Callable[[Target], Lineup]) -> Lineup:
    """What one log is measured by, for each of them."""
    lineup = Lineup()
    for engine, target in targets.items():
        lineup.add(of_one(target), engine)
    return lineup


def report_of(
    bench: str,
    samples: Samples,
    peers: Mapping[str, str],
    engines: tuple[EngineName, ...],
    setting: dict[str, Any],
) -> dict[str, Any]:
    """Medians of all contenders, and of those that have a peer the ratio to it, formed within each round."""
    contenders = {name: summarize(of_one) for name, of_one in samples.items()}
    for name, peer in peers.items():
        contenders[name]["ratios"] = {"to": peer, **ratios(samples[name], samples[peer])}
    report = {"bench": bench, "contenders": contenders, "settings": setting}
    if engines:
        report["engines"] = _beside(samples, engines)
    return report


def _beside(samples: Samples, engines: tuple[EngineName, ...]) -> dict[str, dict[str, Any]]:
    """By work and engine: the rate, and its ratio to that of the first engine that does this work."""
    works: dict[str, dict[EngineName, list[Sample]]] = {}
    for engine in engines:
        for name, of_one in samples.items():
            if name.startswith(named(engine, "")):
                works.setdefault(name.removeprefix(named(engine, "")), {})[engine] = of_one
    found: dict[str, dict[str, Any]] = {}
    for work, by_engine in works.items():
        first = next(iter(by_engine))
        found[work] = {engine: summarize(of_one) for engine, of_one in by_engine.items()}
        for engine, of_one in by_engine.items():
            if engine != first:
                found[work][engine]["ratios"] = {"to": first, **ratios(of_one, by_engine[first])}
    return found


def engine_table(report: Mapping[str, Any]) -> Table:
    """A row for each work, and for each engine its rate and, but for the first, the ratio to the first one's."""
    engines = list(dict.fromkeys(engine for by_engine in report["engines"].values() for engine in by_engine))
    table = Table(title="engines beside each other, records/s", title_justify="left")
    table.add_column("medians over the rounds")
    for engine in engines:
        table.add_column(engine, justify="right")
        if engine != engines[0]:
            table.add_column(f"/ {engines[0]}", justify="right")
    for work, by_engine in report["engines"].items():
        cells = []
        for engine in engines:
            figures = by_engine.get(engine)
            cells.append("" if figures is None else f"{figures['records_per_s']:,.0f}")
            if engine != engines[0]:
                share = {} if figures is None else figures.get("ratios", {})
                cells.append(f"{share['rate']:.2f}" if share.get("to") == engines[0] else "")
        table.add_row(work, *cells)
    return table
