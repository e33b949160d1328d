"""Planted bugs of what happens where no file can be opened."""

from tests.planted.bug import Bug

DESCRIPTORS = (
    Bug(
        "descriptors-fence-an-orderer",
        "an orderer that may not open the file of its next snapshot fences itself for good",
        "ithaca.storage.raftlog",
        "if not _is_full(error) and error.errno not in NO_DESCRIPTORS:",
        "if not _is_full(error):",
        needs=lambda drawn: "use-up-descriptors" in drawn.faults,
    ),
)
