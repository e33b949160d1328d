"""`ithaca consumer`: named consumers, which are listed, shown, moved and deleted."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from ithaca.cli.cluster.listing import duration, emit_list
from ithaca.cli.consume import parse_start
from ithaca.cli.option_groups import with_groups
from ithaca.cli.options import BootstrapOption, JsonOption, PathOption, TimeoutOption, examples
from ithaca.cli.output import emit, size_text
from ithaca.cli.target import Cluster, Embedded, chosen_target

if TYPE_CHECKING:
    from ithaca.model.consumers import ConsumerInfo
    from ithaca.model.groups import GroupMember
    from ithaca.model.interface import Log

app = typer.Typer(
    no_args_is_help=True,
    help="List, move and delete the named consumers of a log.",
    epilog=examples("ithaca consumer list -p ./events", "ithaca consumer reset billing latest -p ./events"),
)

LIST_EXAMPLES = examples("ithaca consumer list -p ./events", "ithaca consumer list -b 10.0.0.11:7600 --json")
SHOW_EXAMPLES = examples("ithaca consumer show billing -b 10.0.0.11:7600")
RESET_EXAMPLES = examples(
    "ithaca consumer reset billing earliest -p ./events",
    "ithaca consumer reset billing 2026-01-31T12:00 -b 10.0.0.11:7600",
)
DELETE_EXAMPLES = examples("ithaca consumer delete billing -p ./events")

NameArgument = Annotated[str, typer.Argument(help="The consumer's name.")]


@dataclass(frozen=True, slots=True)
class ConsumedLog:
    """The log whose consumers are meant."""

    context: typer.Context
    path: PathOption = None
    bootstrap: BootstrapOption = None
    timeout: TimeoutOption = None

    def target(self) -> Embedded | Cluster:
        return chosen_target(self.context, self.path, self.bootstrap, self.timeout)


def _lag(info: "ConsumerInfo") -> str:
    count = f"{info.lag_positions} positions" if info.lag_records is None else f"{info.lag_records} records"
    return f"{count}, about {size_text(info.lag_bytes)}"


def _row(info: "ConsumerInfo") -> tuple[object, ...]:
    shared = f"{len(info.positions)} parts" if info.is_group else "-"
    return info.name, shared, info.position, _lag(info), f"{info.lag_s:.1f} s", duration(info.idle_s)


@app.command("list", epilog=LIST_EXAMPLES)
@with_groups
def list_all(*, log: ConsumedLog, as_json: JsonOption = False) -> None:
    """List the consumers: where each stands, how far behind the tail, and for how long nobody has used it."""
    with log.target().reader() as opened:
        listed = opened.consumers()
    emit_list(listed, ("consumer", "group of", "position", "behind", "for", "idle"), _row, as_json=as_json)


@app.command(epilog=SHOW_EXAMPLES)
@with_groups
def show(*, log: ConsumedLog, name: NameArgument, as_json: JsonOption = False) -> None:
    """Show one consumer; of a group, its members, and how far each part is."""
    with log.target().reader() as opened:
        info = _found(opened, name)
        members = _members(opened, info)
        tail = opened.tail()
    if as_json:
        emit_list((info,), (), _row, as_json=True)
        emit_list(members, (), lambda member: (member,), as_json=True)
        return
    emit(f"consumer {info.name}: position {info.position}, {_lag(info)} and {info.lag_s:.1f} s behind, ".encode())
    emit(f"idle for {duration(info.idle_s)}\n".encode())
    if info.is_group:
        _show_parts(info, members, tail)


def _members(log: "Log", info: "ConsumerInfo") -> "tuple[GroupMember, ...]":
    """Those that whoever assigns the parts knows: of a directory, a process of its own, which cannot be asked."""
    from ithaca.model.errors import ReadOnly

    if not info.is_group:
        return ()
    try:
        return log.group_members(info.name)
    except ReadOnly:
        return ()


def _show_parts(info: "ConsumerInfo", members: "tuple[GroupMember, ...]", tail: int) -> None:
    for member in members:
        leaving = f", of which {_numbers(member.asked_back)} are asked back" if member.asked_back else ""
        emit(f"member {member.label}: parts {_numbers(member.parts)}{leaving}, ".encode())
        emit(f"heard of {member.seen_s:.1f} s ago, lease {member.lease_s:g} s\n".encode())
    holders = {part: member.label for member in members for part in member.parts}
    for number, position in enumerate(info.positions):
        behind = max(0, tail - position)
        emit(f"part {number}: position {position}, {behind} positions behind, {holders.get(number, '-')}\n".encode())


def _numbers(parts: tuple[int, ...]) -> str:
    return ", ".join(map(str, parts)) or "none"


def _found(log: "Log", name: str) -> "ConsumerInfo":
    from ithaca.model.consumers import ConsumerRefused, refusal_error

    found = next((each for each in log.consumers() if each.name == name), None)
    if found is None:
        raise refusal_error(ConsumerRefused(name, "unknown"))
    return found


@app.command(epilog=RESET_EXAMPLES)
@with_groups
def reset(
    *,
    log: ConsumedLog,
    name: NameArgument,
    to: Annotated[
        str, typer.Argument(metavar="POSITION|TIME|earliest|latest", help="Where it goes on; times as ISO 8601.")
    ],
) -> None:
    """Have a consumer go on elsewhere. Whoever has it open is fenced, and commits nothing any more."""
    start = parse_start(to, "TO")
    with log.target().writer(create=False) as opened:
        position = opened.reset_consumer(name, start)
    emit(f"consumer {name} goes on at {position}\n".encode())


@app.command(epilog=DELETE_EXAMPLES)
@with_groups
def delete(*, log: ConsumedLog, name: NameArgument) -> None:
    """Forget a consumer, whoever has it open. A new one of the name begins where its program says."""
    with log.target().writer(create=False) as opened:
        opened.delete_consumer(name)
    emit(f"consumer {name} is deleted\n".encode())
