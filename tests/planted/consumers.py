"""Bugs of named consumers."""

from ithaca.sim.configuration import Configuration
from tests.planted.bug import Bug


def _consumes(configuration: Configuration) -> bool:
    return configuration.consumers > 0


def _is_shared(configuration: Configuration) -> bool:
    return configuration.consumers > 1


CONSUMERS = (
    Bug(
        "consumer-fenced-commit",
        "a commit counts whoever has opened the consumer since",
        "ithaca.consumers.table",
        "part is not None and part.owner and part.epoch == command.epoch else None",
        "part is not None and part.owner else None",
        needs=_is_shared,
    ),
    Bug(
        "consumer-publication-fenced",
        "a publication commits what was consumed by a handle that was fenced",
        "ithaca.engines.scalog.ordering.state",
        "        refused = self.consumers.objection(entry.consumed)",
        "        refused = None",
        needs=_is_shared,
    ),
    Bug(
        "consumer-commit-lost",
        "a leader acknowledges a commit before it is agreed on",
        "ithaca.server.consumers",
        "        self._propose(ConsumerChanges(commands, self._time_us()), done, failed)",
        "        changes = ConsumerChanges(commands, self._time_us())\n"
        "        self._propose(changes, lambda _: None, lambda _: None)\n"
        "        done(self._table().copy().apply(changes))",
        needs=_consumes,
        engine="raft",
    ),
    Bug(
        "consumer-snapshot-without",
        "a server that is restored from a snapshot knows of no consumers",
        "ithaca.engines.raft.replog.state",
        "        state.consumers = ConsumerTable(rest.consumers)\n",
        "",
        needs=_consumes,
        engine="raft",
    ),
)
