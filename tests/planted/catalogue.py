"""All planted bugs."""

from tests.planted.belfast import BELFAST
from tests.planted.bug import Bug
from tests.planted.client import CLIENT
from tests.planted.clocks import CLOCKS
from tests.planted.connections import CONNECTIONS
from tests.planted.consumers import CONSUMERS
from tests.planted.corfu import CORFU
from tests.planted.corfu_changes import CORFU_CHANGES
from tests.planted.corfu_flows import CORFU_FLOWS
from tests.planted.corfu_scans import CORFU_SCANS
from tests.planted.descriptors import DESCRIPTORS
from tests.planted.groups import GROUPS
from tests.planted.lanes import LANES
from tests.planted.names import NAMES
from tests.planted.order import ORDER
from tests.planted.parts import PARTS
from tests.planted.raft import RAFT
from tests.planted.raft_log import RAFT_LOG
from tests.planted.replacing import REPLACING
from tests.planted.replica import REPLICA
from tests.planted.shards import SHARDS
from tests.planted.silence import SILENCE
from tests.planted.storage import STORAGE
from tests.planted.told import TOLD

BUGS: tuple[Bug, ...] = (
    *(*RAFT, *ORDER, *PARTS, *NAMES, *REPLACING, *REPLICA, *STORAGE, *CLIENT, *SHARDS, *TOLD, *CLOCKS, *CONNECTIONS),
    *LANES,
    *DESCRIPTORS,
    *SILENCE,
    *RAFT_LOG,
    *CORFU,
    *CORFU_FLOWS,
    *CORFU_CHANGES,
    *CORFU_SCANS,
    *BELFAST,
    *CONSUMERS,
    *GROUPS,
)
