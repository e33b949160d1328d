"""Why Raft refuses something, in errors that a client knows."""

from ithaca.model.errors import InvalidInput, IthacaError, Overloaded, Unavailable
from ithaca.model.limits import RAFT_MEMBERS_MAX
from ithaca.raft.events import RefusedRequest
from ithaca.server.raft_host.identity import RaftMember


def error_of(member: RaftMember, refused: RefusedRequest) -> IthacaError:
    """The error for whoever asked this member."""
    server, words = member.server, member.words
    match refused.reason:
        case "not leader":
            hint = "no leader is known" if refused.leader is None else f"server {refused.leader} leads"
            return Unavailable(f"server {server} does not lead: {hint}")
        case "overloaded":
            return Overloaded("too much is proposed and not yet committed: try again later")
        case "too large":
            return InvalidInput("the entry is larger than a Raft entry may be")
        case "last voter":
            return words.last(f"this is the last {words.role} that votes: add another first")
        case "no such member":
            return words.no_such(f"there is no such {words.role} in the group")
        case "too many members":
            return InvalidInput(f"the group has {RAFT_MEMBERS_MAX} members already: remove one first")
        case "no majority would be alive":
            return Unavailable(
                f"after this change most {words.role}s would be silent, and nothing could be agreed on: remove those "
                "first that are gone, or start them"
            )
        case "change pending":
            return Unavailable(f"another change of the {words.role}s is under way: try again")
        case reason:
            return Unavailable(f"server {server} takes no proposals now: {reason}")
