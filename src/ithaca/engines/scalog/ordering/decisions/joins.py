"""Who may join the order as which replica, and with which lane."""

from ithaca.engines.scalog.ordering.outcomes import LaneOpened, Outcome, RefusedEntry
from ithaca.engines.scalog.ordering.shards import ShardTable, boot_max
from ithaca.model.errors import InvalidInput, IthacaError, NoSuchReplica, NoSuchShard, Unavailable, WrongLane
from ithaca.model.positions import LaneId
from ithaca.model.view import Address, Replica


def member(shards: ShardTable, number: int, replica: int, address: Address | None) -> Replica | IthacaError | None:
    """Which replica of the view it is, None if its shard has none of this number, or why it can be none.

    `address` is what it enlisted as, if it was a spare.
    """
    shard = shards.by_number.get(number)
    if shard is None and shards.was_reclaimed(number):
        return NoSuchShard(f"shard {number} was finalized and trimmed whole: nothing is left of it")
    if shard is None:
        return Unavailable(f"shard {number} is not registered yet: add it with ithaca shard add")
    found = shard.find(replica)
    if found is not None and address not in (None, found.address):
        # Two leaders, one after the other, may give the same number to two learners: one of them was added. Both
        # addresses are what the learner enlisted as, wherever it is started now.
        return NoSuchReplica(
            f"replica {replica} of shard {number} is the server at {found.address}, and not the one that "
            f"enlisted as {address}: nobody counts on what that holds"
        )
    return found


def boot_problem(replica: Replica, boot: int, time_us: int) -> InvalidInput | None:
    """Why a replica of the view cannot have come to this start of its, at this time; None when it can.

    Starts are counted, and go with the time where a count was lost: one that is far ahead of both is a mistake, and
    would leave no numbers for later ones.
    """
    if boot > boot_max(replica.boot, time_us):
        return InvalidInput(f"boot {boot} is too far ahead: the last one was {replica.boot}")
    return None


def opened_lane(outcomes: list[Outcome]) -> LaneId | IthacaError | None:
    """The lane that a replica got, None in a finalized shard; an error when it cannot have one."""
    for outcome in outcomes:
        if isinstance(outcome, LaneOpened):
            return outcome.lane
        if isinstance(outcome, RefusedEntry):
            match outcome.reason:
                case "the shard is finalized":
                    return None
                case "no such shard":
                    return NoSuchShard("the shard was reclaimed while the replica joined: nothing is left of it")
                case "no such replica":
                    return NoSuchReplica("the replica was removed from its shard while it joined")
                case "the lane is closed":
                    return WrongLane("the lane of this start of the replica was closed: join with a higher boot")
                case reason:
                    return InvalidInput(f"the replica cannot join: {reason}")
    raise AssertionError(f"opening a lane had no outcome: {outcomes}")
