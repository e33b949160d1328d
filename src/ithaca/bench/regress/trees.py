"""The trees that are compared: the one that this package is from, and another commit of it."""

import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ithaca.model.errors import InvalidInput, Unavailable


@dataclass(frozen=True, slots=True)
class Tree:
    """A directory with `src` in it, and what it is called in a report."""

    name: str
    root: Path


def this_tree() -> Tree:
    """The tree that runs: its newest commit, and whether it was changed since."""
    root = Path(__file__).parents[4]
    try:
        commit = _git(root, "rev-parse", "--short", "HEAD")
    except Unavailable:
        return Tree("this tree", root)  # an unpacked archive has no commits, and can be compared with a directory
    changed = _git(root, "status", "--porcelain", "--untracked-files=no", "--", "src")
    return Tree(f"{commit}{', changed' if changed else ''}", root)


@contextmanager
def other_tree(against: str, this: Tree, directory: Path) -> Iterator[Tree]:
    """A commit as it was, written to `directory`; or the directory of a tree, which is used as it is."""
    named = Path(against)
    if (named / "src" / "ithaca").is_dir():
        yield Tree(str(named), named.resolve())
        return
    _git(this.root, "--version")
    try:
        commit = _git(this.root, "rev-parse", "--verify", "--short", f"{against}^{{commit}}")
    except Unavailable:
        raise InvalidInput(
            f"{against!r} is neither a commit of {this.root} nor a directory with src/ithaca in it"
        ) from None
    directory.mkdir()
    archive = directory / "src.tar"
    _git(this.root, "archive", "--output", str(archive), commit, "src")
    with tarfile.open(archive) as files:
        files.extraction_filter = getattr(tarfile, "data_filter", lambda member, path: member)  # new in 3.11.4
        files.extractall(directory)
    archive.unlink()
    yield Tree(commit, directory)


def _git(root: Path, *arguments: str) -> str:
    if shutil.which("git") is None:
        raise Unavailable("comparing commits needs git: install it, or name the directory of another tree")
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True)
    if done.returncode:
        raise Unavailable(f"git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout.strip()
