"""Loads modules from other code than their source, in this interpreter and in those that it starts.

Python imports this file by its name when it starts, because `judging` puts this directory into PYTHONPATH. The
directory that MUTANTS_CHANGED names has one file of marshalled code for each module that is changed. Where it also has
a file `hits`, statements with a probe set their byte in it: all processes of a run share it.
"""

import builtins
import marshal
import mmap
import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType

CHANGED = "MUTANTS_CHANGED"
HITS = "__ithaca_hits__"


class _Loader(SourceFileLoader):
    """Gives the code that was prepared."""

    def __init__(self, module: str, path: str, code: str) -> None:
        super().__init__(module, path)
        self._code = code

    def get_code(self, fullname: str) -> CodeType:
        with open(self._code, "rb") as file:
            code = marshal.load(file)
        assert isinstance(code, CodeType)
        return code


class _Finder(MetaPathFinder):
    """Finds the modules that are changed, and leaves all others to those behind it."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        code = os.path.join(self._directory, fullname)
        if not fullname.startswith("ithaca.") or not os.path.exists(code):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        assert spec is not None
        assert spec.origin is not None
        spec.loader = _Loader(fullname, spec.origin, code)
        return spec


def install() -> None:
    directory = os.environ[CHANGED]
    assert not any(name.startswith("ithaca.") for name in sys.modules), "the product was imported before its change"
    hits = os.path.join(directory, "hits")
    if os.path.exists(hits):
        with open(hits, "r+b") as file:
            setattr(builtins, HITS, mmap.mmap(file.fileno(), 0))
    sys.meta_path.insert(0, _Finder(directory))


if __name__ == "sitecustomize" and CHANGED in os.environ:
    install()
