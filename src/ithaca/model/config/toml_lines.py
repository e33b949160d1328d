"""TOML files read so that a mistake in one can be named by its line.

The parser of the standard library tells no lines. `line_of` looks for the key of something that the parser
found, and so may trust that the document is well-formed; where a document is written in an unusual way, it
names the closest line around the key instead.
"""

import difflib
import re
import tomllib
from collections.abc import Iterable
from typing import Any

from ithaca.model.errors import ConfigError

_HEADER = re.compile(r"\s*(\[{1,2})([^\[\]]+)\]")
_SETTING = re.compile(r"\s*([\w.\"'\s-]+?)\s*=")
_ELEMENT = re.compile(r"""(?P<skip>\#[^\n]*|[\s,\[\]]+)|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[^\s,\[\]\#"']+""")

Key = str | int
"""Of a table, or the place in an array."""


def read_toml(path: str) -> tuple[dict[str, Any], str]:
    """The document, and the text it was read from."""
    try:
        with open(path, encoding="utf-8") as stream:
            text = stream.read()
        return tomllib.loads(text), text
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=path) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"is not UTF-8: {error.reason} at byte {error.start}", file=path) from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"is not TOML: {error}", file=path, line=_line_of_syntax_error(error, text)) from error
    except (ValueError, RecursionError) as error:  # of the parser, for numbers and nesting without end
        raise ConfigError(f"cannot be parsed: {error}", file=path) from error


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The closest known word in brackets, or nothing.

    >>> did_you_mean("durabilty", ["durability", "name"])
    ' (did you mean durability?)'
    """
    close = difflib.get_close_matches(word, list(known), n=1)
    return f" (did you mean {close[0]}?)" if close else ""


def line_of(text: str, *path: Key) -> int:
    """The line that sets the key at `path`, or else the closest table around it; 0 when there is none.

    >>> line_of('[[shard]]\\n[[shard]]\\nreplicas = [\\n"a:1",\\n"b:2"]', "shard", 1, "replicas", 1)
    5
    """
    best, best_depth = 0, 0
    table: tuple[Key, ...] = ()
    arrays: dict[tuple[Key, ...], int] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if header := _HEADER.match(line):
            table = here = _table(_split(header[2]), header[1] == "[[", arrays)
        elif setting := _SETTING.match(line):
            here = (*table, *_split(setting[1]))
        else:
            continue
        depth = min(len(here), len(path))
        if depth > best_depth and here[:depth] == path[:depth]:
            best, best_depth = number, depth
    if best_depth == len(path) - 1 and isinstance(path[-1], int):
        return _line_of_element(text, best, path[-1])
    return best


def _table(names: tuple[str, ...], is_array: bool, arrays: dict[tuple[Key, ...], int]) -> tuple[Key, ...]:
    """The path that a header opens; `arrays` counts the tables of each array of tables."""
    here: tuple[Key, ...] = ()
    for depth, name in enumerate(names, 1):
        here = (*here, name)
        if is_array and depth == len(names):
            arrays[here] = arrays.get(here, 0) + 1
        if here in arrays:
            here = (*here, arrays[here] - 1)
    return here


def _line_of_element(text: str, line: int, index: int) -> int:
    """The line of an element of the array of plain values that is set on `line`."""
    start = sum(len(each) + 1 for each in text.split("\n")[: line - 1])
    for found in _ELEMENT.finditer(text, text.find("=", start) + 1):
        if found["skip"] is None:
            if index == 0:
                return text.count("\n", 0, found.start()) + 1
            index -= 1
    return line


def _line_of_syntax_error(error: tomllib.TOMLDecodeError, text: str) -> int:
    """The line that the error's message names; at the end of the document it names none."""
    found = re.search(r"at line (\d+)", str(error))
    return int(found[1]) if found else text.rstrip().count("\n") + 1


def _split(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip(" \t\"'") for part in dotted.split("."))
