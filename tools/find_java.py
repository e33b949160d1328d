"""Spark needs Java 17 or newer: look for it, install it where that is allowed, else say in one line what to install.

Whoever sits at a terminal is asked before anything is installed. Everything but `ithaca.spark` works without, so this
never fails the set-up.
"""

import os
import re
import shutil
import subprocess
import sys

NEEDED = 17
INSTALLERS = (
    ("apt-get", ["apt-get", "update", "--quiet"]),  # a fresh machine knows of no packages yet
    ("apt-get", ["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", "openjdk-17-jre-headless"]),
    ("dnf", ["dnf", "install", "--assumeyes", "--quiet", "java-17-openjdk-headless"]),
    ("apk", ["apk", "add", "--quiet", "openjdk17-jre-headless"]),
)


def version_of(said: str) -> int:
    """The major version that `java -version` says; 0 when it says none.

    >>> version_of('openjdk version "17.0.15" 2025-04-15'), version_of('java version "1.8.0_401"'), version_of("")
    (17, 8, 0)
    """
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found[1]) if found else 0


def found_version() -> int:
    """Of the Java that Spark would start."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if java is None:
        return 0
    try:
        return version_of(subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr)
    except OSError:
        return 0


def is_wanted(installer: str) -> bool:
    """Whether it may be installed: whoever sits at a terminal is asked, as it changes the machine."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return True
    try:
        said = input(f"Spark needs Java {NEEDED}. Install it on this machine with {installer}? [Y/n] ")
    except EOFError:
        return False
    return said.strip().lower() in ("", "y", "yes")


def main() -> None:
    if found_version() >= NEEDED:
        return
    installer = next((name for name, _ in INSTALLERS if shutil.which(name)), None)
    if installer is not None and os.geteuid() == 0 and is_wanted(installer):
        print(f"Installing Java {NEEDED} with {installer} ...")
        for name, command in INSTALLERS:
            if name == installer:
                subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
    if found_version() < NEEDED:
        print(
            f"ithaca.spark needs Java {NEEDED} or newer: install openjdk-{NEEDED}-jre-headless with your package "
            "manager, or set JAVA_HOME. Everything else works without.",
            file=sys.stderr,
        )


if __name__ == "__main__":
    main()
