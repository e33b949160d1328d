"""Golden scenarios: each file of `transcripts` holds commands and, below `----`, the effects they had.

`ITHACA_REWRITE=1 pytest tests/raft/test_transcripts.py` writes what happens now into the files.

| command                                  | does                                                           |
|------------------------------------------|----------------------------------------------------------------|
| servers 1 2 3 [name=number ...]          | start a group, with some settings changed                      |
| join 4                                   | start a server that belongs to no group yet                    |
| elect 1                                  | time out, win, commit the first entry; prints nothing          |
| tick 1 100                               | let 100 ms pass for server 1                                   |
| propose 1 a b, read 1, transfer 1 2      | requests to server 1                                           |
| change 1 promote 4                       | a membership change, asked of server 1                         |
| snapshot 1                               | the state machine of server 1 gives a snapshot                 |
| deliver [1 2], drop [1 2], settle        | messages under way (from 1 to 2): once, never, until none left |
| slow 1, sync 1, fast 1                   | hold back persists, finish the oldest, finish all              |
| restart 1, unreachable 1 2               | faults                                                         |
| log 1                                    | print the log                                                  |
"""

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tests.raft.cluster import SETTINGS, Cluster

from ithaca.raft.events import (
    ChangeMembership,
    Effect,
    Persist,
    Propose,
    ReadIndex,
    RoleChanged,
    Send,
    SnapshotTaken,
    TransferLeadership,
    Unreachable,
)
from ithaca.raft.messages import DurableState, Entry, EntryKind, Snapshot, configuration_of

FILES = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))


class Player:
    """Plays one file against one group."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self._request = 0

    def play(self, command: str) -> str:
        name, *words = command.split()
        self.cluster.story.clear()
        verb: Callable[..., object] = getattr(self, f"do_{name}")
        printed = verb(*words)
        if isinstance(printed, str):
            return printed
        return "".join(f"{server}: {described(effect)}\n" for server, effect in self.cluster.story)

    def do_servers(self, *words: str) -> None:
        changed = dict(word.split("=") for word in words if "=" in word)
        settings = msgspec.structs.replace(SETTINGS, **{name: int(value) for name, value in changed.items()})
        self.cluster = Cluster(*(int(word) for word in words if "=" not in word), settings=settings)

    def do_join(self, server: str) -> None:
        self.cluster.add(int(server), DurableState())

    def do_elect(self, server: str) -> str:
        self.cluster.elect(int(server))
        return ""

    def do_tick(self, server: str, passed_ms: str) -> None:
        self.cluster.tick(int(server), int(passed_ms))

    def do_propose(self, server: str, *payloads: str) -> None:
        self._request += 1
        self.cluster.step(int(server), Propose(self._request, tuple(map(str.encode, payloads))))

    def do_read(self, server: str) -> None:
        self._request += 1
        self.cluster.step(int(server), ReadIndex(self._request))

    def do_change(self, server: str, *words: str) -> None:
        self._request += 1
        fields = {"request": self._request, "change": " ".join(words[:-1]), "server": int(words[-1])}
        self.cluster.step(int(server), msgspec.convert(fields, ChangeMembership))

    def do_transfer(self, server: str, target: str) -> None:
        self._request += 1
        self.cluster.step(int(server), TransferLeadership(self._request, int(target)))

    def do_snapshot(self, server: str) -> None:
        index = self.cluster.cores[int(server)].node.applied_index
        self.cluster.step(int(server), SnapshotTaken(index, b"state at %d" % index))

    def do_deliver(self, *link: str) -> None:
        self.cluster.deliver(*map(int, link))

    def do_drop(self, *link: str) -> str:
        return f"{len(self.cluster.take(*map(int, link)))} messages\n"

    def do_settle(self) -> None:
        self.cluster.settle()

    def do_slow(self, server: str) -> None:
        self.cluster.slow_disks.add(int(server))

    def do_sync(self, server: str) -> None:
        self.cluster.sync(int(server))

    def do_fast(self, server: str) -> None:
        self.cluster.slow_disks.discard(int(server))
        self.cluster.sync_all(int(server))

    def do_restart(self, server: str) -> None:
        self.cluster.restart(int(server))

    def do_unreachable(self, server: str, other: str) -> None:
        self.cluster.step(int(server), Unreachable(int(other)))

    def do_log(self, server: str) -> str:
        node = self.cluster.cores[int(server)].node
        log = node.log
        lines = [described_entry(each) for each in log.slice(log.first_index, log.last_index + 1)]
        return f"snapshot {node.snapshot.index}, committed {node.commit_index}: {', '.join(lines)}\n"


def described(effect: Effect) -> str:
    match effect:
        case Send():
            return f"-> {effect.to} {type(effect.message).__name__} {fields(effect.message, skip=('sender',))}"
        case RoleChanged():
            return f"{effect.role.value} in term {effect.term}, leader {effect.leader}"
        case Persist() if effect.is_barrier:
            return f"Persist {effect.sequence}: nothing new"
        case Persist():
            return f"Persist {fields(effect)}"
        case _:
            return f"{type(effect).__name__} {fields(effect)}"


def fields(struct: msgspec.Struct, skip: tuple[str, ...] = ()) -> str:
    """The fields that are not at their defaults."""
    defaults = {each.name: each.default for each in msgspec.structs.fields(struct)}
    parts = []
    for name, value in msgspec.structs.asdict(struct).items():
        if name not in skip and value != defaults[name]:
            parts.append(f"{name}={described_value(value)}")
    return " ".join(parts)


def described_value(value: object) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(described_entry(each) for each in value) + "]"
    if isinstance(value, Snapshot):
        return f"<{value.index}/{value.term} voters {value.configuration.voters}>"
    if isinstance(value, msgspec.Struct):
        return f"<{fields(value)}>"
    return str(value)


def described_entry(entry: Entry) -> str:
    if entry.kind is EntryKind.CONFIGURATION:
        configuration = configuration_of(entry)
        text = f"voters {configuration.voters} learners {configuration.learners}"
    else:
        text = "no-op" if entry.kind is EntryKind.NOOP else entry.data.decode()
    return f"{entry.index}/{entry.term} {text}"


def played(text: str) -> str:
    """The text with the effects that its commands have now."""
    player, lines = Player(), []
    blocks = text.split("\n\n")
    for block in blocks:
        head = block.split("----\n")[0].rstrip("\n").removesuffix("----").rstrip("\n")
        lines.append(head)
        commands = [line for line in head.split("\n") if line and not line.startswith("#")]
        if commands:
            printed = "".join(player.play(command) for command in commands)
            lines[-1] += "\n----\n" + printed.rstrip("\n") if printed else ""
    return "\n\n".join(line.rstrip("\n") for line in lines) + "\n"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_transcript(path: Path) -> None:
    expected = path.read_text()
    now = played(expected)
    if os.environ.get("ITHACA_REWRITE"):
        path.write_text(now)
    else:
        assert now == expected


def test_there_are_transcripts() -> None:
    assert len(FILES) >= 9
