"""Rules about named consumers and groups: `one-owner`, `goes-on`, `taken-once`.

Each opening of a part has an epoch, a number that rises with every opening that counts. So the epochs say in which
order parts were opened, whatever clocks showed, and commits are put between openings without a search: a commit that
was acknowledged came about under its epoch, before the next opening of the part. An opening therefore stands at least
where those acknowledged under smaller epochs have put the part, and at most where somebody has tried to.

What each opening hands out is a subscription, which `dense` and `complete` judge up to its marks, and a commit claims
what a mark does. So with `goes-on` every record below the last commit was handed out, in the order of its key, by
whoever had the part. What was written together with commits is judged by `taken-once`, by `once` (a record that was
written for twice has two positions) and by `session-order`.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from msgspec import UNSET

from ithaca.model.positions import FIRST
from ithaca.proof.columns import Ints
from ithaca.proof.filters import Matcher
from ithaca.proof.history import Commit, Own
from ithaca.proof.ledger import ABSENT, Ledger
from ithaca.proof.rules import Findings


class _Part(NamedTuple):
    """What is known of one part of a consumer."""

    openings: list[Own]
    """By epoch."""
    commits: list[tuple[int, Commit]]
    """With the epoch of each."""

    def next_opened(self, epoch: int) -> float:
        """When somebody was told first that it had opened the part since."""
        after = bisect_left(self.openings, epoch + 1, key=lambda opening: opening.ep)
        return min((opening.ret for opening in self.openings[after:]), default=float("inf"))


def check_consumers(ledger: Ledger, findings: Findings) -> None:
    """Judge who handed out and committed what, and where openings stood."""
    parts = _parts(ledger)
    openings = {opening.sub: opening for part in parts.values() for opening in part.openings}
    ended = {opening.sub: part.next_opened(opening.ep) for part in parts.values() for opening in part.openings}
    for hand in ledger.history.hands:
        if hand.inv > ended[hand.sub]:
            opening = openings[hand.sub]
            findings.add(
                "one-owner",
                f"{_name(opening)} was handed out under epoch {opening.ep} by a call that began at {hand.inv}, and "
                f"another had opened it at {ended[hand.sub]:.0f}",
            )
    for part in parts.values():
        for epoch, commit in part.commits:
            if commit.st == "ok" and commit.inv > ended[commit.sub]:
                findings.add(
                    "one-owner",
                    f"{_name(openings[commit.sub])} was committed to {commit.pos} under epoch {epoch} by a call that "
                    f"began at {commit.inv}, and another had opened it at {ended[commit.sub]:.0f}",
                )
        for opening in part.openings:
            _check_goes_on(opening, part, ledger.trimmed_to, findings)


def _check_goes_on(opening: Own, part: _Part, trimmed_to: int, findings: Findings) -> None:
    """The same opening may be told twice: then commits between these count, too."""
    least = max(
        (
            commit.pos
            for epoch, commit in part.commits
            if commit.st == "ok" and (epoch < opening.ep or (epoch == opening.ep and commit.ret < opening.inv))
        ),
        default=FIRST,
    )
    most = max(
        (commit.pos for epoch, commit in part.commits if epoch <= opening.ep and commit.inv < opening.ret),
        default=FIRST,
    )
    if opening.pos < least:
        findings.add("goes-on", f"{_name(opening)} was opened at {opening.pos}, and {least} was committed")
    if opening.pos > max(most, trimmed_to):
        findings.add("goes-on", f"{_name(opening)} was opened at {opening.pos}, and nobody committed more than {most}")


def check_taken(ledger: Ledger, matching: Matcher, findings: Findings) -> None:
    """Judge what was written together with commits."""
    for part in _parts(ledger).values():
        first = part.openings[0]
        if first.out is UNSET:
            continue
        end = max((commit.pos for _, commit in part.commits if commit.st == "ok"), default=FIRST)
        tried = max((commit.pos for _, commit in part.commits), default=FIRST)
        certain, possible = _taken(ledger, first, matching)
        written = _written(ledger, first.out)
        due = certain[(certain >= max(first.pos, ledger.trimmed_to)) & (certain < end)]
        findings.each(
            "taken-once",
            np.setdiff1d(due, written).tolist(),
            lambda pos, first=first, end=end: (  # type: ignore[misc]
                f"{_name(first)} was committed to {end}, and nothing was written for position {pos}"
            ),
        )
        wrong = np.union1d(np.setdiff1d(written, possible), written[written >= tried])
        findings.each(
            "taken-once",
            wrong.tolist(),
            lambda pos, first=first, tried=tried: (  # type: ignore[misc]
                f"{_name(first)} was committed to {tried} at most, and something was written for position {pos}"
            ),
        )


def _taken(ledger: Ledger, opening: Own, matching: Matcher) -> tuple[Ints, Ints]:
    """The positions of records that the part has, and of those that it may have."""
    where = ledger.history.subs[opening.sub].filter
    if where is not None:
        return matching(where)
    records = ledger.axis[ledger.is_record()]
    return records, records


def _written(ledger: Ledger, session: int) -> Ints:
    """The numbers of the records of a session that are in the log."""
    lines = ledger.records.line[ledger.place[ledger.records.number] != ABSENT]
    numbers = ledger.history.lines.seq[lines[ledger.history.lines.session[lines] == session]]
    found: Ints = np.unique(numbers)
    return found


def _parts(ledger: Ledger) -> dict[tuple[str, int], _Part]:
    parts: dict[tuple[str, int], _Part] = defaultdict(lambda: _Part([], []))
    by_sub: dict[int, Own] = {}
    for opening in sorted(ledger.history.owns, key=lambda each: (each.ep, each.ret)):
        parts[opening.con, opening.part].openings.append(opening)
        by_sub[opening.sub] = opening
    for commit in _newest(ledger.history.commits):
        opening = by_sub[commit.sub]
        parts[opening.con, opening.part].commits.append((opening.ep, commit))
    return parts


def _newest(commits: Iterable[Commit]) -> list[Commit]:
    """One line of each commit: the one that knows more."""
    found: dict[tuple[int, int, int], Commit] = {}
    for commit in commits:
        key = commit.sub, commit.pos, commit.inv
        if key not in found or commit.st != "info":
            found[key] = commit
    return [commit for commit in found.values() if commit.st != "fail"]


def _name(opening: Own) -> str:
    return f"part {opening.part} of consumer {opening.con!r}"
