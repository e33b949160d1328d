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
        "scan-passes-over-holes",
        "a scan of files leaves out rows that are still being written",
        "ithaca.engines.corfu.sequencing.unit",
        "missing.rows[0] if missing.rows else missing.next",
        "missing.next",
        engine="corfu",
        needs=lambda drawn: drawn.seed % 2 == 1,
    ),
)
