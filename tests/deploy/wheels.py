"""The wheel of this tree."""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def built(directory: Path) -> Path:
    """What `make dist` builds, in a directory."""
    shutil.rmtree(ROOT / "build" / "lib", ignore_errors=True)  # modules that were there when one was built before
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-build-isolation", "--no-deps", "-w", str(directory)]
    subprocess.run([*build, str(ROOT)], check=True, timeout=120)
    [found] = directory.glob("ithaca-*.whl")
    return found
