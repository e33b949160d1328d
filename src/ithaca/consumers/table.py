"""The table of consumers: which there are, who has them, and where they stand."""

from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from ithaca.consumers.limits import PARTS_ANSWERED_MAX
from ithaca.model.consumers import (
    CommitPosition,
    ConsumerCommand,
    ConsumerGone,
    ConsumerOutcome,
    ConsumerPart,
    ConsumerRefused,
    ConsumerState,
    DeleteConsumer,
    ExpireConsumer,
    GroupStands,
    MakeGroup,
    OpenConsumer,
    OpenGroupPart,
    PartStands,
    ResetConsumer,
)
from ithaca.model.limits import (
    CONSUMER_COMMANDS_MAX,
    CONSUMER_PARTS_TOTAL_MAX,
    CONSUMERS_MAX,
    GROUP_PARTS,
    NAMES_ANSWERED_MAX,
)

CONSUMER_BYTES = 320
CONSUMER_PART_BYTES = 32
"""What a consumer, and each of its parts, takes in a snapshot at most."""

_Natural = Annotated[int, Meta(ge=0, lt=1 << 62)]


class ConsumerChanges(msgspec.Struct, frozen=True, array_like=True, tag="consumers"):
    """An entry: what several clients asked for, one after the other, and the time on the leader's clock."""

    commands: Annotated[tuple[ConsumerCommand, ...], Meta(min_length=1, max_length=CONSUMER_COMMANDS_MAX)]
    time_us: _Natural = 0


class PackedConsumers(msgspec.Struct, frozen=True, array_like=True):
    """The table in a snapshot: the last stamp, the last time, and the consumers by name."""

    stamp: _Natural = 0
    time_us: _Natural = 0
    consumers: list[ConsumerState] = []

    def __bool__(self) -> bool:
        """Whether there ever was a consumer."""
        return self.stamp > 0


class ConsumerTable:
    """The consumers after some changes."""

    def __init__(self, packed: PackedConsumers | None = None) -> None:
        packed = packed or PackedConsumers()
        self.stamp = packed.stamp
        self.time_us = packed.time_us
        """The latest that a change has named."""
        self.by_name = {consumer.name: consumer for consumer in packed.consumers}
        self.part_count = sum(len(consumer.parts) for consumer in packed.consumers)

    def __len__(self) -> int:
        return len(self.by_name)

    @property
    def size_bytes(self) -> int:
        """A bound on what it takes in a snapshot."""
        return CONSUMER_BYTES * len(self.by_name) + CONSUMER_PART_BYTES * self.part_count

    def packed(self) -> PackedConsumers:
        """Equal tables are packed into equal bytes."""
        return PackedConsumers(self.stamp, self.time_us, [self.by_name[name] for name in sorted(self.by_name)])

    def copy(self) -> "ConsumerTable":
        table = ConsumerTable()
        table.stamp, table.time_us, table.by_name = self.stamp, self.time_us, dict(self.by_name)
        table.part_count = self.part_count
        return table

    def after(self, name: str) -> Iterable[ConsumerState]:
        """The consumers with a greater name, in the order of names."""
        return (self.by_name[each] for each in sorted(self.by_name) if each > name)

    def apply(self, changes: ConsumerChanges) -> tuple[ConsumerOutcome, ...]:
        """Take in an entry: one outcome for each of its commands."""
        self.time_us = max(self.time_us, changes.time_us)
        return tuple(map(self._apply, changes.commands))

    def objection(self, consumed: Iterable[CommitPosition]) -> ConsumerRefused | None:
        """Why these cannot be committed together with what was written, all of them; None if they can."""
        for command in consumed:
            known = self.by_name.get(command.name)
            if known is None:
                return ConsumerRefused(command.name, "unknown")
            part = _current(known, command)
            if part is None:
                return _fenced(known, command)
            if command.position < part.position:
                return ConsumerRefused(command.name, "behind", part.epoch)
        return None

    def _apply(self, command: ConsumerCommand) -> ConsumerOutcome:
        known = self.by_name.get(command.name)
        if isinstance(command, OpenConsumer):
            return self._open(known, command)
        if isinstance(command, MakeGroup):
            return self._make(known, command)
        if known is None:
            if isinstance(command, DeleteConsumer | ExpireConsumer):
                return ConsumerGone(command.name)
            return ConsumerRefused(command.name, "unknown")
        match command:
            case CommitPosition():
                return self._commit(known, command)
            case OpenGroupPart():
                return self._take(known, command)
            case ResetConsumer():
                return self._reset(known, command)
            case DeleteConsumer(made=made):
                is_meant = made == known.made
            case ExpireConsumer(stamp=stamp):
                is_meant = stamp == known.stamp
        if not is_meant:
            return ConsumerRefused(command.name, "used", known.parts[0].epoch)
        del self.by_name[command.name]
        self.part_count -= len(known.parts)
        return ConsumerGone(command.name)

    def _open(self, known: ConsumerState | None, command: OpenConsumer) -> ConsumerOutcome:
        if known is None:
            if len(self.by_name) >= CONSUMERS_MAX:
                return ConsumerRefused(command.name, "full")
            made = self._next_stamp()
            known = ConsumerState(command.name, made, made, self.time_us, (ConsumerPart(0, 0, command.start),))
            self.part_count += 1
        part = known.parts[0]
        if known.is_group:
            return ConsumerRefused(command.name, "group", part.epoch)
        if part.owner == command.owner:
            return PartStands(known.name, 0, part.epoch, part.position)
        return self._stands(known, 0, ConsumerPart(self._next_stamp(), command.owner, part.position))

    def _make(self, known: ConsumerState | None, command: MakeGroup) -> ConsumerOutcome:
        if known is not None:
            if not known.is_group or command.parts not in (0, len(known.parts)):
                return ConsumerRefused(known.name, "group", known.parts[0].epoch)
            return GroupStands(known.name, len(known.parts))
        count = command.parts or GROUP_PARTS
        if len(self.by_name) >= CONSUMERS_MAX or self.part_count + count > CONSUMER_PARTS_TOTAL_MAX:
            return ConsumerRefused(command.name, "full")
        made = self._next_stamp()
        parts = (ConsumerPart(made, 0, command.start),) * count
        self.by_name[command.name] = ConsumerState(command.name, made, made, self.time_us, parts, is_group=True)
        self.part_count += count
        return GroupStands(command.name, count)

    def _take(self, known: ConsumerState, command: OpenGroupPart) -> ConsumerOutcome:
        if not known.is_group or command.part >= len(known.parts):
            return ConsumerRefused(known.name, "group", known.parts[0].epoch)
        part = known.parts[command.part]
        if part.owner == command.owner:
            return PartStands(known.name, command.part, part.epoch, part.position)
        return self._stands(known, command.part, ConsumerPart(self._next_stamp(), command.owner, part.position))

    def _commit(self, known: ConsumerState, command: CommitPosition) -> ConsumerOutcome:
        part = _current(known, command)
        if part is None:
            return _fenced(known, command)
        self._next_stamp()
        return self._stands(known, command.part, replace(part, position=max(part.position, command.position)))

    def _reset(self, known: ConsumerState, command: ResetConsumer) -> ConsumerOutcome:
        first = known.parts[0]
        if first.owner == command.owner:
            return PartStands(known.name, 0, first.epoch, first.position)
        if command.stamp != known.stamp:
            return ConsumerRefused(known.name, "used", first.epoch)
        part = ConsumerPart(self._next_stamp(), command.owner, command.position)
        return self._stands(replace(known, parts=(part,) * len(known.parts)), 0, part)

    def _stands(self, known: ConsumerState, number: int, part: ConsumerPart) -> PartStands:
        """Put the part into its place, as it was changed with the newest stamp."""
        parts = (*known.parts[:number], part, *known.parts[number + 1 :])
        self.by_name[known.name] = replace(known, parts=parts, stamp=self.stamp, used_us=self.time_us)
        return PartStands(known.name, number, part.epoch, part.position)

    def _next_stamp(self) -> int:
        self.stamp += 1
        return self.stamp


def page(consumers: Iterable[ConsumerState]) -> tuple[ConsumerState, ...]:
    """As many of the first ones as one message carries."""
    found: list[ConsumerState] = []
    parts = 0
    for consumer in consumers:
        parts += len(consumer.parts)
        if len(found) >= NAMES_ANSWERED_MAX or (found and parts > PARTS_ANSWERED_MAX):
            break
        found.append(consumer)
    return tuple(found)


def _current(known: ConsumerState, command: CommitPosition) -> ConsumerPart | None:
    """The part that is to be committed, if that comes from whoever has it now."""
    part = known.parts[command.part] if command.part < len(known.parts) else None
    return part if part is not None and part.owner and part.epoch == command.epoch else None


def _fenced(known: ConsumerState, command: CommitPosition) -> ConsumerRefused:
    epochs = [part.epoch for part in known.parts[command.part : command.part + 1]]
    return ConsumerRefused(known.name, "fenced", *epochs)
