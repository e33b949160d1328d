"""`ithaca check-history`: judge what a run has written down."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ithaca.cli.options import JsonOption, examples
from ithaca.cli.output import emit, emit_json, note
from ithaca.cli.progress import byte_progress

if TYPE_CHECKING:
    from ithaca.proof.rules import Verdict

CHECK_HISTORY_EXAMPLES = examples("ithaca check-history run.jsonl", "ithaca check-history run.jsonl --json")

VIOLATED = 1
"""The exit status when a rule does not hold."""
NO_VERDICT = 2
"""The exit status when the file proves nothing, or is no history."""


def check_history(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False, readable=True, help="A history: JSON lines.")
    ],
    as_json: JsonOption = False,
) -> None:
    """Judge a history of appends, reads, deliveries and final dumps: was the log what it promises to be?

    Exit status 0 when every rule held, 1 when one did not, 2 when the file is no history or proves nothing.
    """
    from ithaca.proof.checker import check_file
    from ithaca.proof.history import BadHistory

    try:
        with byte_progress(file.stat().st_size) as advance:
            verdict = check_file(file, advance)
    except BadHistory as error:
        note(f"ithaca: {error}")
        raise typer.Exit(NO_VERDICT) from None
    if as_json:
        emit_json(_as_json(verdict))
    else:
        _print(verdict)
    if verdict.violations:
        raise typer.Exit(VIOLATED)
    if verdict.no_verdict is not None:
        raise typer.Exit(NO_VERDICT)


def _as_json(verdict: "Verdict") -> dict[str, Any]:
    from ithaca.proof.rules import RULE

    return {
        "ok": verdict.ok,
        "no_verdict": verdict.no_verdict,
        "events": verdict.events,
        "found": verdict.found,
        "violations": [
            {
                "rule": rule,
                "number": RULE[rule].number,
                "promise": RULE[rule].promise,
                "text": text,
            }
            for rule, text in verdict.violations
        ],
    }


def _print(verdict: "Verdict") -> None:
    for violation in verdict.violations:
        emit(f"{violation}\n".encode())
    events = sum(verdict.events.values())
    if verdict.violations:
        found = ", ".join(f"{count} of {rule}" for rule, count in verdict.found.items())
        emit(f"violated, by {events} events: {found}\n".encode())
    elif verdict.no_verdict is not None:
        emit(f"no verdict on {events} events\n".encode())
    else:
        emit(f"sound: every rule holds for {events} events\n".encode())
    if verdict.no_verdict is not None:
        note(f"this history proves nothing: {verdict.no_verdict}")
