"""Named consumers of a cluster: the leader is asked, in every engine with the same words."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from ithaca.client.consuming.awaited.book import ConsumerBook
from ithaca.client.consuming.known import Known
from ithaca.client.engine_log import EngineLog
from ithaca.model.arguments import instance
from ithaca.model.consumers import (
    ConsumerCommand,
    ConsumerOutcome,
    ConsumerState,
    check_consumer_name,
    checked_commands,
)
from ithaca.model.engine import Feature
from ithaca.model.errors import ProtocolError
from ithaca.model.groups import GroupBeat, GroupMember, GroupTold
from ithaca.model.units import Duration, optional_seconds
from ithaca.protocol.codec import Message
from ithaca.protocol.consumers import (
    BeatGroup,
    ChangeConsumers,
    ConsumersAre,
    ConsumersChanged,
    GetConsumers,
    GetGroup,
    GroupBeaten,
    GroupIs,
)


class ClusterConsumers(ConsumerBook, EngineLog, ABC):
    """A handle on a cluster that can ask the leader."""

    @property
    def has_dense_positions(self) -> bool:
        return Feature.DENSE in self.features

    @abstractmethod
    async def ask_leader(self, message: Message, timeout_s: float | None) -> Message:
        """What the leader answers, whoever that is; asked at least once. None: the handle's own time-out."""

    async def change_consumers(
        self, commands: Sequence[ConsumerCommand], *, timeout: Duration | None = None
    ) -> tuple[ConsumerOutcome, ...]:
        timeout_s = optional_seconds(timeout)
        checked = checked_commands(commands)
        answer = await self.ask_leader(ChangeConsumers(checked), timeout_s)
        if not isinstance(answer, ConsumersChanged) or len(answer.outcomes) != len(checked):
            raise ProtocolError(f"the leader answered ChangeConsumers with {type(answer).__name__}")
        return answer.outcomes

    async def known_consumers(self) -> Known:
        found: list[ConsumerState] = []
        while True:
            answer = await self.ask_leader(GetConsumers(found[-1].name if found else ""), None)
            if not isinstance(answer, ConsumersAre):
                raise ProtocolError(f"the leader answered GetConsumers with {type(answer).__name__}")
            if not answer.items:
                return Known(answer.time_us, tuple(found))
            found += answer.items

    async def beat_group(self, beat: GroupBeat, *, timeout: Duration | None = None) -> GroupTold:
        instance(beat, GroupBeat, "beat", "a GroupBeat")
        answer = await self.ask_leader(BeatGroup(beat), optional_seconds(timeout))
        if not isinstance(answer, GroupBeaten):
            raise ProtocolError(f"the leader answered BeatGroup with {type(answer).__name__}")
        return answer.told

    async def group_members(self, name: str) -> tuple[GroupMember, ...]:
        check_consumer_name(name)
        answer = await self.ask_leader(GetGroup(name), None)
        if not isinstance(answer, GroupIs):
            raise ProtocolError(f"the leader answered GetGroup with {type(answer).__name__}")
        return answer.members
