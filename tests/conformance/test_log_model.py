"""The log against a naive list, through any sequence of operations."""

from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from ithaca.model.engine import Feature
from ithaca.model.errors import NotWritten, Trimmed
from ithaca.model.records import KeyFilter, Record
from tests.conformance.engines import Engine

KEYS = st.sampled_from([None, b"", b"a", b"ab", b"b"])
VALUES = st.one_of(st.binary(max_size=20), st.builds(lambda size: b"v" * size, st.integers(0, 70_000)))
RECORDS = st.lists(st.tuples(VALUES, KEYS), min_size=1, max_size=8)
OFFSETS = st.integers(0, 60)


class LogMachine(RuleBasedStateMachine):
    """`self.model[n]` is the (value, key) of the record at `self.start + n`."""

    def __init__(self, engine: Engine, directory: Path) -> None:
        super().__init__()
        self.engine = engine
        self.cleanup = ExitStack()
        self.deployment = self.cleanup.enter_context(engine.deploy(directory))

    @initialize()
    def open_fresh(self) -> None:
        self.log = self.deployment.open()
        self.start = self.trimmed = self.log.tail()
        self.model: list[tuple[bytes, bytes | None]] = []
        self.session = self.log.session("machine")
        self.session_next = 1

    def place(self, offset: int) -> int:
        """A position near or among those that the model knows, and never below the start."""
        return self.start + offset % (len(self.model) + 2)

    @rule(value=VALUES, key=KEYS)
    def append(self, value: bytes, key: bytes | None) -> None:
        assert self.log.append(value, key=key).position == self.start + len(self.model)
        self.model.append((value, key))

    @rule(records=RECORDS)
    def append_many(self, records: list[tuple[bytes, bytes | None]]) -> None:
        receipt = self.log.append_many([value for value, _ in records], keys=[key for _, key in records])
        assert receipt.position == self.start + len(self.model)
        assert receipt.count == len(records)
        self.model += records

    @rule(records=RECORDS)
    def submit(self, records: list[tuple[bytes, bytes | None]]) -> None:
        pendings = [self.log.submit(value, key=key) for value, key in records]
        self.log.flush()
        places = [pending.result().position for pending in pendings]
        assert places == list(range(self.start + len(self.model), self.start + len(self.model) + len(records)))
        self.model += records

    @rule(records=RECORDS)
    def append_in_session_twice(self, records: list[tuple[bytes, bytes | None]]) -> None:
        values, keys = [value for value, _ in records], [key for _, key in records]
        receipt = self.session.append_many(values, keys=keys, seq=self.session_next)
        assert receipt.position == self.start + len(self.model)
        assert self.session.append_many(values, keys=keys, seq=self.session_next) == receipt
        self.session_next += len(records)
        self.model += records

    @rule(offset=OFFSETS)
    def read(self, offset: int) -> None:
        position = self.place(offset)
        if position < self.trimmed:
            with pytest.raises(Trimmed) as trimmed:
                self.log.read(position)
            assert trimmed.value.first == self.trimmed
        elif position >= self.start + len(self.model):
            with pytest.raises(NotWritten) as missing:
                self.log.read(position)
            assert missing.value.tail == self.start + len(self.model)
        else:
            record = self.log.read(position)
            assert (record.value, record.key) == self.model[position - self.start]

    def expected(self, low: int, high: int, where: KeyFilter | None) -> list[tuple[int, bytes, bytes | None]]:
        found = []
        for position in range(low, min(high, self.start + len(self.model))):
            value, key = self.model[position - self.start]
            matches = where is None or (
                key is not None and (key == where.key if where.kind == "equals" else key.startswith(where.key))
            )
            if matches:
                found.append((position, value, key))
        return found

    @rule(low=OFFSETS, high=OFFSETS, key=st.sampled_from([b"", b"a", b"b"]), kind=st.sampled_from("aep"))
    def read_range(self, low: int, high: int, key: bytes, kind: str) -> None:
        low, high = sorted((self.place(low), self.place(high)))
        low, high = max(low, self.trimmed), max(high, self.trimmed)
        where = {"a": None, "e": KeyFilter.equals(key), "p": KeyFilter.prefix(key)}[kind]
        expected = self.expected(low, high, where)

        def plain(records: list[Record]) -> list[tuple[int, bytes, bytes | None]]:
            return [(record.position, record.value, record.key) for record in records]

        assert plain(list(self.log.read_range(low, high, where=where))) == expected
        batches = self.log.read_range(low, high, where=where).batches()
        assert plain([record for batch in batches for record in batch.records()]) == expected
        with self.log.subscribe(low, where=where) as subscription:
            everything = self.expected(low, self.start + len(self.model), where)
            found: list[Record] = []
            while len(found) < len(everything):
                found += subscription.poll(timeout=60)
            assert plain(found) == everything

    @rule(offset=OFFSETS)
    def trim(self, offset: int) -> None:
        before = min(self.place(offset), self.start + len(self.model))
        self.log.trim(before)
        self.trimmed = max(self.trimmed, before)

    @rule()
    def reopen(self) -> None:
        self.log.close()
        self.log = self.deployment.open()
        self.session = self.log.session("machine")
        assert self.session.next_seq == self.session_next

    @invariant()
    def tail_agrees(self) -> None:
        assert self.log.tail() == self.start + len(self.model)
        # Before the first trim the log may hold records from before this machine.
        if self.trimmed > self.start:
            assert self.log.first() == self.trimmed

    def teardown(self) -> None:
        self.cleanup.close()


def test_the_log_behaves_as_a_list(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> None:
    engine.require(Feature.SESSIONS)
    engine.require(Feature.TRIM)
    engine.require(Feature.DENSE)  # the model is a list, and a position an index

    class Machine(LogMachine):
        def __init__(self) -> None:
            super().__init__(engine, tmp_path_factory.mktemp("machine"))

    run_state_machine_as_test(Machine, settings=settings(max_examples=20, stateful_step_count=30))
