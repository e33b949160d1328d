"""The wheel of this tree."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def built(directory: Path) -> Path:
    """What `make dist` builds, in a directory."""
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-build-isolation", "--no-deps", "-w", str(directory)]
    subprocess.run([*build, str(ROOT)], check=True, timeout=120)
    [found] = directory.glob("ithaca-*.whl")
    return found
