"""The log in memory, against a plain dictionary."""

from hypothesis import given
from hypothesis import strategies as st

from ithaca.raft.log import ENTRY_OVERHEAD_BYTES, Log
from ithaca.raft.messages import Entry, EntryKind

commands = st.lists(
    st.tuples(st.sampled_from(["append", "truncate", "compact", "reset"]), st.integers(0, 8)), max_size=40
)


@given(commands, st.integers(0, 40), st.integers(0, 12))
def test_it_agrees_with_a_dictionary(script: list[tuple[str, int]], index: int, term: int) -> None:
    log, terms, base = Log(), {0: 0}, 0  # `base` is the last index that is compacted away
    newest = 0
    for kind, number in script:
        last = max(terms)
        if kind == "append":
            newest = max(newest, terms[last]) + number // 4
            log.append([Entry(last + 1, newest, EntryKind.PAYLOAD, b"")])
            terms[last + 1] = newest
        elif kind == "truncate":
            start = max(base + 1, last - number)
            log.truncate(start)
            terms = {place: each for place, each in terms.items() if place < start}
        elif kind == "compact":
            base = min(last, base + number)
            log.compact(base)
            terms = {place: each for place, each in terms.items() if place >= base}
        else:
            base = last + number
            log.reset(base, newest)
            terms = {base: newest}
    last = max(terms)
    assert (log.first_index, log.last_index, log.last_term) == (base + 1, last, terms[last])
    assert [log.term_at(place) for place in range(last + 3)] == [terms.get(place) for place in range(last + 3)]
    agreeing = [place for place, each in terms.items() if place <= index and each <= term]
    assert log.last_at_most(index, term) == max(agreeing, default=base)


def test_batches_keep_to_their_bounds_but_always_move() -> None:
    log = Log()
    log.append([Entry(index, 1, EntryKind.PAYLOAD, b"x" * 100) for index in range(1, 11)])
    size = ENTRY_OVERHEAD_BYTES + 100
    assert len(log.batch(1, 100, 3 * size)) == 3
    assert len(log.batch(1, 2, 3 * size)) == 2
    assert len(log.batch(1, 100, 1)) == 1
    assert len(log.batch(9, 100, 1 << 20)) == 2
    assert log.batch(11, 100, 1 << 20) == ()
