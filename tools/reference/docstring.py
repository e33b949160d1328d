"""Docstrings as Markdown: examples become blocks of code, public names links."""

import inspect
import re
from collections.abc import Mapping

_NAME = re.compile(r"(?<![\[`])`([A-Za-z_]\w*)`(?![\]`])")


def markdown(text: str | None, links: Mapping[str, str], own: str = "") -> str:
    """The docstring as Markdown; `links` has the address of each public name, of which `own` is not linked.

    >>> markdown("See `Log`.\\n\\n>>> 1 + 1\\n2", {"Log": "log.md#log"}).splitlines()
    ['See [`Log`](log.md#log).', '', '```pycon', '>>> 1 + 1', '2', '```']
    """
    lines: list[str] = []
    fence = ""
    for line in inspect.cleandoc(text or "").splitlines():
        if fence == "example" and not line:
            lines.append("```")
            fence = ""
        elif not fence and line.startswith(">>>"):
            lines.append("```pycon")
            fence = "example"
        elif line.startswith("```"):
            fence = "" if fence else "block"
        lines.append(line if fence else linked(line, links, own))
    if fence == "example":
        lines.append("```")
    return "\n".join(lines)


def linked(line: str, links: Mapping[str, str], own: str) -> str:
    """The line, with public names in backticks as links."""

    def link(match: re.Match[str]) -> str:
        name = match[1]
        return f"[`{name}`]({links[name]})" if name in links and name != own else match[0]

    return _NAME.sub(link, line)
