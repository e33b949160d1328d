"""Bounds of packs and of files of runs; all others are in `ithaca.model.limits`."""

from ithaca.model.limits import MIB

PACK_LANE_BYTES_MAX = 4 * MIB
PACK_LANE_RUNS_MAX = 1024
"""A settled lane with no more than this goes into a pack with others."""
PACK_LANES_MIN = 16
"""So many small settled lanes wait before they are put into a pack."""
PACK_LANES_MAX = 16_384
PACK_BYTES_MAX = 256 * MIB
"""What one pack holds at most."""
PACKS_OPEN_MAX = 16
"""Packs whose files are kept open."""
PACKS_MERGED = 8
"""So many packs of about one size become one."""
RUNS_PAGE_ENTRIES = 128
"""Runs in one checksummed page of the runs file."""
RUNS_FILE_PAGES = 4096
"""Pages in one file of runs: what is trimmed goes by the file."""
RUNS_PAGES_CACHED_MAX = 256
"""Pages of the runs file kept in memory."""
