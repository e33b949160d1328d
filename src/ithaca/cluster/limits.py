"""Bounds of servers as processes of this machine; those of the log are in `model.limits`."""

from ithaca.model.limits import KIB, MIB

RESTART_PAUSE_S_MIN = 0.1
RESTART_PAUSE_S_MAX = 5.0
"""Before a server that has died is started again: doubled each time, from the first to the second."""
RESTART_FORGET_S = 10.0
"""A server that ran for so long starts over with the shortest pause."""
SERVER_STOP_TIMEOUT_S = 10.0
"""How long a server may take to stop before it is killed."""
CLUSTER_START_TIMEOUT_S = 60.0
"""How long a start in the background waits for a healthy cluster."""
CONNECT_TIMEOUT_S = 30.0
"""How long a change of a cluster on this machine waits for its orderers, unless somebody says otherwise."""
METRICS_BYTES_MAX = 4 * MIB
"""What a server may answer when it is asked for its metrics."""
LOG_FILE_BYTES_MAX = 16 * MIB
"""What a server's log grows to before it is put aside; one old file is kept."""
LOG_LINE_BYTES_MAX = 64 * KIB
"""A longer line of a log is shown in parts."""
