"""Planted bugs of the engine `corfu`: what a scan of units' files must not do."""

from tests.planted.bug import Bug

CORFU_SCANS = (
    Bug(
        "scan-set-by-set",
        "a scan of files has the rows of one set behind those of another",
        "ithaca.engines.corfu.client.local_rows",
        "        self._rows = rows[:, np.argsort(rows[0])]\n",
        "        self._rows = rows\n",
        engine="corfu",
        needs=lambda drawn: drawn.seed % 2 == 1 and drawn.shards > 1,
    ),
    Bug(
        "scan-beyond-its-end",
        "a scan reads on beyond the tail that was known when it began",
        "ithaca.engines.corfu.client.scan",
        "        self._stop = stop\n",
        "        self._stop = stop + (8 << 20)\n",
        engine="corfu",
    ),
    Bug(
        "scan-passes-over-trimmed",
        "a scan of files leaves out what was trimmed since its start was looked for, and says nothing",
        "ithaca.engines.corfu.client.scan",
        "            if found.up_to <= row or self.position < knowledge.first:\n",
        "            if found.up_to <= row:\n",
        engine="corfu",
        needs=lambda drawn: drawn.seed % 2 == 1 and drawn.trims,
    ),
    Bug(
        "scan-unfinished-rows",
        "a scan of files takes rows from the head of a chain, complete or not",
        "ithaca.engines.corfu.sequencing.flows.locating",
        "    for unit in reversed(chain):\n        is_last = unit == chain[-1]\n",
        "    for unit in chain:\n        is_last = unit == chain[0]\n",
        engine="corfu",
        needs=lambda drawn: drawn.seed % 2 == 1 and drawn.replicas > 1,
    ),
    Bug(
        "scan-passes-over-holes",
        "a scan of files leaves out rows that are still being written",
        "ithaca.engines.corfu.sequencing.unit",
        "missing.rows[0] if missing.rows else missing.next",
        "missing.next",
        engine="corfu",
        needs=lambda drawn: drawn.seed % 2 == 1,
    ),
)
