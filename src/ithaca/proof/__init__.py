"""What a run did, written down, and the judge of it: histories, their checker, and what replicas hold at the end.

The simulator and the torturer write the same histories (`history`, with the ids of `payload`), and `checker` judges
both (docs/proof.md): read it first. `collect` makes `columns` of a history, `ledger` puts side by side what is said of
each position and id, `filters` and `speculation` do so for filtered and speculative deliveries; `checks` holds the
rules against them, and `rules` names those. `dump` is what a stopped replica holds, as its engine reads it.
"""
