"""Planted bugs of prepared appends: keys, parts that are gone, what is sealed, and what replicas keep."""

from tests.planted.bug import Bug

PARTS = (
    Bug(
        "parts-key-not-kept",
        "a key that was published before is published once more",
        "ithaca.engines.scalog.ordering.prepared.writers",
        "if known is None or entry.key > known.key:",
        "if known is None or entry.key >= known.key:",
        needs=lambda drawn: drawn.publishers > 0 and "client" in drawn.faults,
    ),
    Bug(
        "parts-in-lane-order",
        "parts are published in the order of their lanes, and not in the caller's",
        "ithaca.engines.scalog.ordering.prepared.parts",
        "parts = [self._take(lane) for lane, _ in entry.parts]",
        "parts = [self._take(lane) for lane, _ in sorted(entry.parts)]",
    ),
    Bug(
        "parts-sealed-too-early",
        "a part is sealed when one replica has it",
        "ithaca.engines.scalog.ordering.reports",
        "        return _largest(group.copies, [held.lengths.get(lane, 0) for held in group.members()])\n",
        "        return max((held.lengths.get(lane, 0) for held in group.members()), default=0)\n",
    ),
    Bug(
        "parts-aborted-and-kept",
        "an abort is acknowledged, and the part is still published when that is asked for",
        "ithaca.engines.scalog.ordering.prepared.parts",
        "return self._drop(name[0] for name in entry.parts if self.find(name) is not None)",
        "return []",
        needs=lambda drawn: drawn.publishers > 0,
    ),
    Bug(
        "parts-dropped-when-sealed",
        "a replica that starts takes sealed parts for gone, and drops them",
        "ithaca.engines.scalog.replica.joining",
        "listed = {lane for lane, _ in summary.lengths} | {part.lane for part in summary.parts}",
        "listed = {lane for lane, _ in summary.lengths} | {part.lane for part in summary.parts if part.length is None}",
        needs=lambda drawn: drawn.publishers > 0 and bool({"kill", "stop", "crash-loop"} & {*drawn.faults}),
    ),
)
