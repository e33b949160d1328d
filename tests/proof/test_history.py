"""Histories as files: every event there and back, bad lines by name, many writers, torn ends."""

from pathlib import Path
from random import Random

import pytest
from tests.proof.simulated_log import simulated

from ithaca.proof.history import (
    AnyEvent,
    Append,
    BadHistory,
    Commit,
    Deliver,
    Fault,
    Final,
    First,
    Hand,
    HistoryWriter,
    Mark,
    Own,
    Plan,
    Range,
    Read,
    Tail,
    Trim,
    decode,
    encode,
    merge,
    read_history,
)

LINES: dict[bytes, AnyEvent] = {
    b'{"k":"plan","copies":2,"ok_min":9,"faults":{"kill":1},"dense":true}\n': Plan(
        copies=2, ok_min=9, faults={"kill": 1}
    ),
    b'{"k":"append","id":[3,4],"n":2,"inv":5,"ret":6,"st":"ok","pos":[7,9],"key":"k"}\n': Append(
        id=(3, 4), n=2, inv=5, ret=6, st="ok", pos=(7, 9), key="k"
    ),
    b'{"k":"append","id":[3,4],"n":2,"inv":5,"ret":6,"st":"info","pos":null,"key":null}\n': Append(
        id=(3, 4), n=2, inv=5, ret=6, st="info"
    ),
    b'{"k":"read","pos":7,"inv":1,"ret":2,"id":null}\n': Read(pos=7, inv=1, ret=2, id=None),
    b'{"k":"final","node":"a","runs":[[1,[[3,4],"noop","lost"]],[9,[]]]}\n': Final(
        node="a", runs=((1, ((3, 4), "noop", "lost")), (9, ()))
    ),
    b'{"k":"range","inv":1,"ret":2,"start":3,"stop":9,"filter":"key=k","ids":[[4,[3,4]]]}\n': Range(
        inv=1, ret=2, start=3, stop=9, filter="key=k", ids=((4, (3, 4)),)
    ),
    b'{"k":"mark","sub":3,"t":4,"up_to":5}\n': Mark(sub=3, t=4, up_to=5),
    b'{"k":"first","inv":1,"ret":2,"n":3}\n': First(inv=1, ret=2, n=3),
    b'{"k":"trim","inv":1,"ret":null,"before":3}\n': Trim(inv=1, ret=None, before=3),
    b'{"k":"deliver","sub":3,"ret":4,"pos":7,"id":[3,4],"key":null,"ts":9,"shard":1}\n': Deliver(
        sub=3, ret=4, pos=7, id=(3, 4), key=None, ts=9, shard=1
    ),
    b'{"k":"fault","t":9,"what":"kill replica 0/1"}\n': Fault(t=9, what="kill replica 0/1"),
}


@pytest.mark.parametrize("line", LINES)
def test_lines_are_as_the_format_says(line: bytes) -> None:
    assert encode(LINES[line]) == line
    assert decode(line) == LINES[line]


def test_every_event_comes_back(tmp_path: Path) -> None:
    consumed = (Own("billing", 0, 3, 1, 9, 1, 2, 7), Hand(9, 2, 3), Commit(9, 5, 3, 4, "ok"))
    events = [*simulated(Random(5), 200).history(), *consumed]
    assert {type(event) for event in events} == set(AnyEvent.__args__)
    with HistoryWriter(tmp_path / "run") as writer:
        for event in events:
            writer.write(event)
    assert list(read_history(tmp_path / "run")) == events


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b'{"k":"tale","n":1}',
        b'{"k":"tail","inv":1,"ret":2}',
        b'{"k":"tail","inv":1,"ret":2,"n":-1}',
        b'{"k":"tail","inv":1.5,"ret":2,"n":1}',
        b'{"k":"read","pos":7,"inv":1,"ret":2,"id":"gone"}',
        b'{"k":"append","id":[1,2],"n":1,"inv":1,"ret":2,"st":"maybe"}',
        b'{"k":"append","id":[1],"n":1,"inv":1,"ret":2,"st":"ok","pos":1}',
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: bytes) -> None:
    with pytest.raises(BadHistory):
        decode(line)
    good = encode(Tail(inv=1, ret=2, n=3))
    path = tmp_path / "run"
    path.write_bytes(good * 50_000 + line + b"\n" + good)
    with pytest.raises(BadHistory, match=r"run, line 50001: "):
        list(read_history(path))


def test_writers_add_to_what_is_there(tmp_path: Path) -> None:
    for number in range(3):
        with HistoryWriter(tmp_path / "run") as writer:
            writer.write(Tail(inv=1, ret=2, n=number))
    assert [event.n for event in read_history(tmp_path / "run") if isinstance(event, Tail)] == [0, 1, 2]


def test_what_was_flushed_is_in_the_file(tmp_path: Path) -> None:
    writer = HistoryWriter(tmp_path / "run")
    writer.write(Tail(inv=1, ret=2, n=3))
    writer.flush()
    assert list(read_history(tmp_path / "run")) == [Tail(inv=1, ret=2, n=3)]
    writer.close()
    writer.close()


def test_files_are_put_together_without_torn_ends(tmp_path: Path) -> None:
    first, second, third = (encode(Tail(inv=1, ret=2, n=number)) for number in range(3))
    (tmp_path / "a").write_bytes(first + second[:-5])
    (tmp_path / "b").write_bytes(b"")
    (tmp_path / "c").write_bytes(second + third)
    assert merge([tmp_path / name for name in "abc"], tmp_path / "all") == 1
    assert (tmp_path / "all").read_bytes() == first + second + third
