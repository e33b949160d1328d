"""Why Raft refuses something, in errors that a client knows."""

from ithaca.model.errors import InvalidInput, IthacaError, LastOrderer, NoSuchOrderer, Overloaded, Unavailable
from ithaca.model.limits import RAFT_MEMBERS_MAX
from ithaca.raft.events import RefusedRequest
from ithaca.raft.messages import ServerId


def error_of(server: ServerId, refused: RefusedRequest) -> IthacaError:
    """The error for whoever asked `server`."""
    match refused.reason:
        case "not leader":
            hint = "no leader is known" if refused.leader is None else f"server {refused.leader} leads"
            return Unavailable(f"server {server} does not lead: {hint}")
        case "overloaded":
            return Overloaded("too much is proposed and not yet committed: try again later")
        case "too large":
            return InvalidInput("the entry is larger than a Raft entry may be")
        case "last voter":
            return LastOrderer("this is the last orderer that votes: add another first")
        case "no such member":
            return NoSuchOrderer("there is no such orderer in the group")
        case "too many members":
            return InvalidInput(f"the group has {RAFT_MEMBERS_MAX} members already: remove one first")
        case "no majority would be alive":
            return Unavailable(
                "after this change most orderers would be silent, and nothing could be ordered: remove those first "
                "that are gone, or start them"
            )
        case "change pending":
            return Unavailable("another change of the orderers is under way: try again")
        case reason:
            return Unavailable(f"server {server} takes no proposals now: {reason}")
