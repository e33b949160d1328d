"""What each message of a client takes: as in scalog. What is delivered before its place is final takes the right to
read all keys."""

from ithaca.engines.belfast.messages import FollowSlots, GetOwner, Speculate
from ithaca.engines.scalog.server.rights import SCALOG_RULES
from ithaca.server.users.rules import Rules, needs, needs_some

BELFAST_RULES: Rules = {
    **SCALOG_RULES,
    GetOwner: needs_some("read"),
    FollowSlots: needs("read"),
    Speculate: needs("read"),
}
