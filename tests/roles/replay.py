"""A page of the docs, replayed: its blocks as they are printed, from top to bottom, in one Python and one directory.

    python tests/roles/replay.py PAGE PORT [--python-only]

What stands in for the reader's machine: `ithaca` is this interpreter's, and the ports from PORT on are for those from
7600 on. Blocks with a title are files or examples for other machines: files are written, the others left out.
"""

import subprocess
import sys
from pathlib import Path

from tools.examples import Block, blocks

PRINTED_PORT = "127.0.0.1:7600"
SHELL = """\
ithaca() {{
    if [ "$1" = up ]; then shift; set -- up --port {port} "$@"; fi
    {python} -m ithaca "$@"
}}
"""


def main(page: str, port: str, *options: str) -> None:
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(page):
        if block.title.endswith(".py"):
            Path(block.title).write_text(block.code, encoding="utf-8")
        elif block.title:
            continue
        elif block.language == "sh" and "--python-only" not in options:
            run_shell(block, port)
        elif block.language == "python":
            code = block.code.replace(PRINTED_PORT, f"127.0.0.1:{port}")
            # The lines in a traceback are those of the page.
            exec(compile("\n" * (block.line - 1) + code, page, "exec"), names)


def run_shell(block: Block, port: str) -> None:
    code = block.code.replace(PRINTED_PORT, f"127.0.0.1:{port}").replace(".venv/bin/ithaca", "ithaca")
    ran = subprocess.run(["bash", "-euo", "pipefail", "-c", SHELL.format(port=port, python=sys.executable) + code])
    if ran.returncode:
        sys.exit(f"{block.page}:{block.line}: status {ran.returncode} of\n{block.code}")


if __name__ == "__main__":
    main(*sys.argv[1:])
