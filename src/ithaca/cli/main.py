"""What the installed `ithaca` calls: runs a command, and turns errors into exit statuses.

A server that is started as the supervisor does goes past `typer`, whose half second is most of what such a start costs.
"""

import os
import sys
from contextlib import suppress

from ithaca.model.errors import IthacaError


def run() -> None:
    """Run the command line; the exit statuses are listed in the package's docstring."""
    try:
        try:
            _command()
        finally:
            sys.stdout.flush()
    except IthacaError as error:
        _fail(str(error) or type(error).__name__, 1)
    except BrokenPipeError:
        _forget_output()
        sys.exit(1)
    except OSError as error:
        _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error), 1)
    except KeyboardInterrupt:
        sys.exit(130)


def _command() -> None:
    if sys.argv[1:2] == ["serve"]:
        from ithaca.cli.cluster.serving import WrongUsage, plainly_given, serve

        if (given := plainly_given(sys.argv[2:])) is not None:
            with suppress(WrongUsage):  # then the whole command line says what is wrong, as for all commands
                sys.exit(serve(given))
    from ithaca.cli.app import app

    app(prog_name="ithaca")


def _fail(message: str, status: int) -> None:
    print(f"ithaca: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(status)


def _forget_output() -> None:
    # Nobody reads any more; without this the interpreter complains when it flushes at exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
