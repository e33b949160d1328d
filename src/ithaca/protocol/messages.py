"""What the servers and clients of every engine say, with the number of the frame type of each message.

| type | message       | from → to             | answered by                 | payload            |
|------|---------------|-----------------------|-----------------------------|--------------------|
| 1    | Hello         | dialler → server      | Welcome                     |                    |
| 2    | Welcome       | back                  |                             |                    |
| 3    | Failure       | any answer            |                             |                    |
| 4    | Redirect      | orderer → anyone      |                             |                    |
| 5    | Finished      | end of a stream       |                             |                    |
| 6    | GetStatus     | anyone → server       | StatusIs                    |                    |
| 7    | StatusIs      | back                  |                             |                    |
| 60   | AddOrderer    | client → leader       | MembersAre                  |                    |
| 61   | RemoveOrderer | client → leader       | MembersAre                  |                    |
| 62   | GetMembers    | client → leader       | MembersAre                  |                    |
| 63   | MembersAre    | back                  |                             |                    |
| 64   | OrderersAre   | leader → replica      |                             |                    |
| 65   | ChangeConsumers | client → leader     | ConsumersChanged            |                    |
| 66   | ConsumersChanged | back               |                             |                    |
| 67   | GetConsumers  | client → leader       | ConsumersAre                |                    |
| 68   | ConsumersAre  | back                  |                             |                    |
| 71   | ChangeUsers   | client → leader       | UsersChanged                |                    |
| 72   | UsersChanged  | back                  |                             |                    |
| 73   | ListUsers     | client → leader       | UsersListed                 |                    |
| 74   | UsersListed   | back                  |                             |                    |
| 75   | GetUsers      | server → orderer      | UsersAre                    |                    |
| 76   | UsersAre      | back                  |                             |                    |
| 70   | RaftMessage      | orderer → orderer     |                             |                    |
| 77   | BeatGroup     | client → leader       | GroupBeaten                 |                    |
| 78   | GroupBeaten   | back                  |                             |                    |
| 79   | GetGroup      | client → leader       | GroupIs                     |                    |
| 69   | GroupIs       | back                  |                             |                    |

An answer carries its request's correlation number. The messages of an engine are in its folder, and are added by
`protocol.codec.register`.
"""

import msgspec

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
from ithaca.protocol.greeting import Failure, Finished, GetStatus, Hello, Redirect, StatusIs, Welcome
from ithaca.protocol.members import AddOrderer, GetMembers, MembersAre, OrderersAre, RaftMessage, RemoveOrderer
from ithaca.protocol.users import ChangeUsers, GetUsers, ListUsers, UsersAre, UsersChanged, UsersListed

TYPES: dict[int, type[msgspec.Struct]] = {
    1: Hello,
    2: Welcome,
    3: Failure,
    4: Redirect,
    5: Finished,
    6: GetStatus,
    7: StatusIs,
    60: AddOrderer,
    61: RemoveOrderer,
    62: GetMembers,
    63: MembersAre,
    64: OrderersAre,
    65: ChangeConsumers,
    66: ConsumersChanged,
    67: GetConsumers,
    68: ConsumersAre,
    70: RaftMessage,
    71: ChangeUsers,
    72: UsersChanged,
    73: ListUsers,
    74: UsersListed,
    75: GetUsers,
    76: UsersAre,
    77: BeatGroup,
    78: GroupBeaten,
    79: GetGroup,
    69: GroupIs,
}
"""Numbers are never given to another message."""
