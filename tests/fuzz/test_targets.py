"""Whatever bytes come, a decoder gives a value or one of its own errors, in little memory."""

import tracemalloc
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.fuzz.mutations import mutated
from tests.fuzz.target import Target
from tests.fuzz.targets import TARGETS

EXAMPLES_MIN = 120
EXAMPLES_PER_SEED = 6
NUMBERS = (b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0\0\0\x01")

every_target = pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)


@every_target
def test_examples_are_accepted(target: Target[Any]) -> None:
    for seed in target.seeds:
        assert target.accepts(seed)
        assert target.accepts(target.repair(seed))


@every_target
def test_what_once_broke_it(target: Target[Any]) -> None:
    for data in target.regressions:
        target.accepts(data)
        target.accepts(target.repair(data))


@every_target
def test_random_bytes(target: Target[Any]) -> None:
    @given(st.binary(max_size=300))
    @example(b"")
    @settings(max_examples=50)
    def run(data: bytes) -> None:
        target.accepts(data)
        target.accepts(target.repair(data))

    run()


@every_target
def test_damaged_examples(target: Target[Any]) -> None:
    @given(mutated(target.seeds))
    @settings(max_examples=EXAMPLES_MIN + EXAMPLES_PER_SEED * len(target.seeds))
    def run(data: bytes) -> None:
        target.accepts(data)
        target.accepts(target.repair(data))

    run()


@every_target
def test_a_length_allocates_nothing(target: Target[Any]) -> None:
    """Large numbers wherever a length may stand, with the checksums of one who means them."""
    seed = max(target.seeds, key=len)[:4000]
    step = max(4, len(seed) // 60)
    target.accepts(seed)  # what is imported late is imported now
    tracemalloc.start()
    try:
        for at in range(0, len(seed), step):
            for said in NUMBERS:
                data = target.repair(seed[:at] + said + seed[at + 4 :])
                # A decoder takes the same each time, and what else goes on in this process does not.
                assert any(peak_of(target, data) < target.memory_bytes_max for _ in range(3)), (at, said)
    finally:
        tracemalloc.stop()


def peak_of(target: Target[Any], data: bytes) -> int:
    """How much memory was taken at once while this was decoded, by whomever."""
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    target.accepts(data)
    return tracemalloc.get_traced_memory()[1] - before
