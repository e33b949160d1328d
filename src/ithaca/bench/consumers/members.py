"""A group under load: how soon one more member has its share, while the others go on; and how soon the parts of one
that is killed go on, after its lease has ended.
"""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import pairwise
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import ithaca
from ithaca.bench.children import Child, start_child
from ithaca.client.consuming.held_parts import part_of

GROUP = "group"
PARTS = 16
KEYS = tuple(b"key-%d" % number for number in range(256))
POLL_S = 0.02
COMMIT_S = 0.1
EVERY_S = 0.01
"""How often all keys' share of records is appended."""
SETTLE_S = 3.0
WAIT_S = 60.0


class Taken(NamedTuple):
    """What one call handed out: when, and of which parts."""

    at_s: float
    parts: tuple[int, ...]


def produce(parent: Connection, bootstrap: str, rate: int) -> None:
    """Append records of all keys, again and again."""
    count = max(1, round(rate * EVERY_S))
    at = 0
    with ithaca.connect(bootstrap, timeout=60) as log:
        parent.send("begun")
        due_s = time.monotonic()
        while not parent.poll(max(0.0, due_s - time.monotonic())):
            keys = [KEYS[(at + behind) % len(KEYS)] for behind in range(count)]
            log.append_many([b"x" * 100] * count, keys=keys)
            at += count
            due_s = max(due_s + EVERY_S, time.monotonic() - 1)


def take_part(parent: Connection, bootstrap: str, lease_s: float) -> None:
    """Be a member until told to tell what was taken, and when which parts came."""
    taken: list[Taken] = []
    assigned: list[Taken] = []
    joined_s = time.monotonic()
    with (
        ithaca.connect(bootstrap, timeout=60) as log,
        log.consumer(
            GROUP,
            start="latest",
            group=True,
            parts=PARTS,
            lease=lease_s,
            commit_s=COMMIT_S,
            on_assigned=lambda parts: assigned.append(Taken(time.monotonic(), parts)),
        ) as consumer,
    ):
        opened_s = time.monotonic()
        parent.send("joined")
        while not parent.poll(0):
            records = consumer.poll(POLL_S)
            if records:
                parts = {part_of(record.key, PARTS) for record in records}
                taken.append(Taken(time.monotonic(), tuple(parts)))
        parent.recv()
        parent.send((joined_s, opened_s, taken, assigned))
        parent.recv()


def run_members(bootstrap: str, members: int, lease_s: float, rate: int) -> dict[str, Any]:
    """One more member comes, then one is killed."""
    with ExitStack() as stack, ithaca.connect(bootstrap, timeout=60) as log:
        producer = start_child(stack, "the producer", produce, bootstrap, rate)
        producer.answer()
        team = [_member(stack, bootstrap, lease_s, number) for number in range(members)]
        _settled(log, members)
        time.sleep(SETTLE_S)
        added = _member(stack, bootstrap, lease_s, members)
        _settled(log, members + 1)
        time.sleep(SETTLE_S)
        victim = team.pop(0)
        had = next(each.parts for each in log.group_members(GROUP) if each.label.endswith(f":{victim.pid}"))
        victim.process.kill()
        killed_s = time.monotonic()
        heard = next(each for each in log.group_members(GROUP) if each.label.endswith(f":{victim.pid}"))
        lease_ends_s = time.monotonic() + heard.lease_s - heard.seen_s
        _settled(log, members)
        time.sleep(SETTLE_S)
        told = {child.name: _told(child) for child in (*team, added)}
        joined_s, opened_s, _, assigned = told[added.name]
        others = [taken for name, (_, _, taken, _) in told.items() if name != added.name]
        went_on = _went_on(had, killed_s, [each for _, _, each, _ in told.values()])
        return {
            "added": _added(joined_s, opened_s, [each for each in assigned if each.at_s < killed_s], others),
            "killed": {
                "parts": len(had),
                "lease_s": lease_s,
                "went_on_after_kill_s": round(went_on - killed_s, 3),
                "went_on_after_lease_s": round(went_on - lease_ends_s, 3),
            },
        }


def _added(joined_s: float, opened_s: float, assigned: list[Taken], others: Sequence[list[Taken]]) -> dict[str, Any]:
    """When the new member had its share, since it began to connect and since it was a member; and the longest time in
    which one of the others was handed out nothing, meanwhile and in the seconds before.
    """
    last_s = max(each.at_s for each in assigned)
    return {
        "parts": sum(len(each.parts) for each in assigned),
        "share_after_connect_s": round(last_s - joined_s, 3),
        "share_after_join_s": round(last_s - opened_s, 3),
        "others_longest_pause_s": round(max(_pause(each, joined_s, last_s + 0.5) for each in others), 3),
        "others_longest_pause_before_s": round(max(_pause(each, joined_s - SETTLE_S, joined_s) for each in others), 3),
    }


def _pause(taken: list[Taken], first_s: float, last_s: float) -> float:
    times = [first_s, *(each.at_s for each in taken if first_s < each.at_s < last_s), last_s]
    return max(after - before for before, after in pairwise(times))


def _went_on(parts: Sequence[int], killed_s: float, takers: Sequence[list[Taken]]) -> float:
    """When the last of these parts was handed out by somebody else."""
    first: dict[int, float] = {}
    for taken in takers:
        for each in taken:
            for part in each.parts if each.at_s > killed_s else ():
                first[part] = min(each.at_s, first.get(part, each.at_s))
    return max(first[part] for part in parts)


def _member(stack: ExitStack, bootstrap: str, lease_s: float, number: int) -> Child:
    child = start_child(stack, f"member {number}", take_part, bootstrap, lease_s)
    child.answer()
    return child


def _told(child: Child) -> tuple[float, float, list[Taken], list[Taken]]:
    child.ask("tell")
    found: tuple[float, float, list[Taken], list[Taken]] = child.answer()
    return found


def _settled(log: ithaca.ClusterLog, members: int) -> None:
    """Wait until so many members share all parts, and nothing is to move."""
    deadline_s = time.monotonic() + WAIT_S
    while time.monotonic() < deadline_s:
        found = log.group_members(GROUP)
        shares = sorted(len(each.parts) for each in found)
        is_even = len(found) == members and sum(shares) == PARTS and shares[-1] - shares[0] <= 1
        if is_even and not any(each.asked_back for each in found):
            return
        time.sleep(0.05)
    raise ithaca.DeadlineExceeded(f"{members} members did not share the parts within {WAIT_S:.0f} s")
