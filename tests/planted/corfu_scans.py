"""Planted bugs of the engine `corfu`: what a scan of units' files, and a reader of stretches, must not do."""

from tests.planted.bug import Bug

_FLOWS = "ithaca.engines.corfu.sequencing.flows"

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
    Bug(
        "stretch-at-head",
        "a stretch is read at the heads of chains, complete or not",
        f"{_FLOWS}.stretching",
        "else chain[-1]\n",
        "else chain[0]\n",
        engine="corfu",
        needs=lambda drawn: drawn.replicas > 1,
    ),
    Bug(
        "stretch-skips-rows-of-a-set",
        "a stretch goes on where one of the sets has not given all its rows",
        f"{_FLOWS}.stretching",
        "                stop = min(stop, answer.up_to)\n",
        "                pass\n",
        engine="corfu",
    ),
    Bug(
        "stretch-passes-over-an-answer",
        "a set that has not answered counts as one whose rows were trimmed",
        f"{_FLOWS}.stretching",
        "            stop = min(stop, call.start)\n",
        "            pass\n",
        engine="corfu",
    ),
    Bug(
        "stretch-cut-by-bytes",
        "a unit that has given as many bytes as it may says that there was no more",
        "ithaca.engines.corfu.storage.unit_store",
        "                if last_bytes > bytes_max:\n                    return found, row\n",
        "                if last_bytes > bytes_max:\n                    return found, stop\n",
        engine="corfu",
    ),
)
