"""The pure core of a replica: order, outcomes, versions, snapshots."""

import pytest
from tests.objects.machines import Counter, answers, command, kind_of, machine_of, play, record

from ithaca.model.errors import Corrupt, FormatTooNew, NoSuchMethod, NotEncodable, WrongObject, WrongVersion
from ithaca.objects.context import current
from ithaca.objects.kind import Method
from ithaca.objects.machine import Arrived, Save, SnapshotWanted
from ithaca.objects.snapshot import Snapshot


def test_commands_are_applied_in_order_and_own_ones_are_answered() -> None:
    machine = machine_of(Counter)
    effects = play(
        machine,
        command(3, Counter, "add", 5, number=1),
        command(7, Counter, "add", 1, origin=2, number=1),
        command(8, Counter, "add", 4, number=2),
    )
    assert answers(effects) == [5, 10]
    assert (machine.state.value, machine.position, machine.count) == (10, 9, 3)


def test_what_was_applied_is_passed_over() -> None:
    machine = machine_of(Counter)
    again = command(3, Counter, "add", 5)
    play(machine, again)
    play(machine, again, command(4, Counter, "add", 1))
    assert machine.state.value == 6


def test_positions_without_records_are_covered() -> None:
    machine = machine_of(Counter)
    machine.step(Arrived((), 50))
    assert machine.position == 50


def test_an_exception_is_an_outcome_like_any_other() -> None:
    machine = machine_of(Counter)
    outcomes = answers(play(machine, command(1, Counter, "fail", "why"), command(2, Counter, "add", 1)))
    assert isinstance(outcomes[0], LookupError)
    assert outcomes[1] == 101


@pytest.mark.parametrize(("method", "arguments"), [("nothing", ()), ("__init__", ()), ("add", ("text",)), ("add", ())])
def test_a_command_that_cannot_be_called_is_an_outcome_too(method: str, arguments: tuple[object, ...]) -> None:
    """Somebody else wrote it, with whatever program: all replicas refuse it alike, and go on."""
    machine = machine_of(Counter)
    outcomes = answers(play(machine, command(1, Counter, method, *arguments), command(2, Counter, "add", 1)))
    assert isinstance(outcomes[0], Exception)
    assert outcomes[1] == 1


class Holder:
    def __init__(self) -> None:
        self.items = [1]
        self.at = (0, 0)

    def give(self) -> list[int]:
        return self.items

    def now(self) -> None:
        self.at = (current().position, current().time_us)


def test_what_is_given_away_is_a_copy() -> None:
    machine = machine_of(Holder)
    given = answers(play(machine, command(1, Holder, "give")))[0]
    given.append(2)
    assert machine.state.items == [1]


def test_time_comes_from_the_record_and_never_goes_back() -> None:
    machine = machine_of(Holder)
    play(machine, command(1, Holder, "now", time_us=70))
    play(machine, command(5, Holder, "now", time_us=40))
    assert machine.state.at == (5, 70)


def test_another_class_under_this_name() -> None:
    with pytest.raises(WrongObject, match="'it' in this log is a Holder, as position 4 says"):
        play(machine_of(Counter), command(4, Holder, "give"))


def test_bytes_of_somebody_else_under_this_key() -> None:
    with pytest.raises(WrongObject, match=r"position 4 .*give the object another name"):
        play(machine_of(Counter), record(4, b"hello"))


def test_another_version_of_the_class() -> None:
    with pytest.raises(WrongVersion, match="position 4 is of version 2 of Counter") as caught:
        play(machine_of(Counter), command(4, Counter, "add", 1, version=2))
    assert (caught.value.found, caught.value.supported) == (2, "1")


def test_a_version_that_is_accepted() -> None:
    machine = machine_of(Counter, version=2)
    machine._kind = kind_of(Counter, 2, (1,))
    play(machine, command(4, Counter, "add", 1, version=1), command(5, Counter, "add", 1, version=2))
    assert machine.state.value == 2


# Snapshots


def test_a_snapshot_is_due_after_so_many_commands_and_goes_on_as_it_was() -> None:
    machine = machine_of(Counter, snapshots=2)
    effects = play(machine, *(command(at, Counter, "add", at) for at in range(1, 4)))
    (saved,) = [effect for effect in effects if isinstance(effect, Save)]
    assert saved.snapshot.head.position == 3
    other = machine_of(Counter)
    other.restore(Snapshot.from_bytes(saved.snapshot.to_bytes(), "here"))
    play(other, *(command(at, Counter, "add", at) for at in range(1, 4)))
    assert (other.state.value, other.count) == (machine.state.value, machine.count) == (6, 3)


def test_a_snapshot_that_would_come_back_otherwise_is_refused() -> None:
    machine = machine_of(Holder)
    with pytest.raises(NotEncodable, match=r"attribute 'at' of Holder would come back as \[0, 0\].*annotate"):
        machine.step(SnapshotWanted())


class Annotated(Holder):
    at: tuple[int, int]


def test_an_annotation_brings_it_back() -> None:
    machine = machine_of(Annotated)
    (saved,) = machine.step(SnapshotWanted())
    assert isinstance(saved, Save)
    assert kind_of(Annotated).decode_state(saved.snapshot.state).at == (0, 0)


@pytest.mark.parametrize("cut", [0, 10, 40])
def test_a_snapshot_that_is_cut_short(cut: int) -> None:
    (saved,) = machine_of(Counter).step(SnapshotWanted())
    assert isinstance(saved, Save)
    with pytest.raises(Corrupt, match="the-file"):
        Snapshot.from_bytes(saved.snapshot.to_bytes()[:cut], "the-file")


def test_every_byte_of_a_snapshot_counts() -> None:
    (saved,) = machine_of(Counter).step(SnapshotWanted())
    assert isinstance(saved, Save)
    data = saved.snapshot.to_bytes()
    for at in range(len(data)):
        with pytest.raises(Corrupt):
            Snapshot.from_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :], "the-file")


def test_a_snapshot_of_the_future_and_one_of_something_else() -> None:
    (saved,) = machine_of(Counter).step(SnapshotWanted())
    assert isinstance(saved, Save)
    with pytest.raises(FormatTooNew):
        Snapshot.from_bytes(saved.snapshot.to_bytes(version=9), "the-file")
    with pytest.raises(WrongObject, match="is a snapshot of 'it', a Counter"):
        saved.snapshot.check_of("it", "Holder", "the-file")
    with pytest.raises(WrongVersion):
        machine_of(Counter, version=3).restore(saved.snapshot)


# Methods


class Odd:
    def many(self, *values: int) -> None: ...

    async def waits(self) -> None: ...

    def _hidden(self) -> None: ...

    def twice(self, a: int, b: int = 7) -> int:
        return a * b


@pytest.mark.parametrize("name", ["many", "waits", "_hidden", "missing", "__init__"])
def test_what_cannot_be_a_command(name: str) -> None:
    with pytest.raises(NoSuchMethod):
        kind_of(Odd).method(name)


def test_a_method_of_another_class() -> None:
    def twice(state: Odd, a: int) -> int:
        return a

    with pytest.raises(NoSuchMethod, match="not a method of Odd"):
        kind_of(Odd).method(twice)


@pytest.mark.parametrize("value", [1 << 70, object(), {1: {2, "x"}}, "text"])
def test_arguments_that_cannot_be_encoded_or_are_of_another_type(value: object) -> None:
    with pytest.raises(NotEncodable, match=r"Odd\.twice"):
        kind_of(Odd).method("twice").encode((value,), {})


def test_defaults_and_names_are_settled_by_whoever_proposes() -> None:
    method: Method = kind_of(Odd).method("twice")
    assert method.decoder.decode(method.encode((3,), {})) == (3, 7)
    assert method.decoder.decode(method.encode((), {"b": 1, "a": 2})) == (2, 1)


class Typed:
    """Its arguments need not be decoded to know what comes back."""

    def put(self, key: bytes, number: int, share: float = 0.0) -> None:
        self.put_last = (key, number, share)


def test_arguments_of_declared_types_are_checked_as_all_others_are() -> None:
    method = kind_of(Typed).method(Typed.put)
    for arguments in ((b"a", 1), (b"a", 2**64 - 1, 0.5), (b"", -(2**63), float("inf"))):
        assert method.decoder.decode(method.encode(arguments, {})) == (*arguments, 0.0)[:3]
    for wrong in (("a", 1), (b"a", 1.5), (b"a", 2**64), (b"a", "1", 0.5), (bytearray(b"a"), None)):
        with pytest.raises(NotEncodable, match=r"Typed\.put"):
            method.encode(wrong, {})
