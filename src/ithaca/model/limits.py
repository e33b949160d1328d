"""Every bound, by name. A bound that is reached raises a typed error or makes the caller wait.

Those of Raft are in `ithaca.raft.limits`, those of packs and runs in `ithaca.engines.scalog.storage.limits`.
"""

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30

RECORD_BYTES_MAX = 16 * MIB
"""Key and value of one record together."""
BATCH_BYTES_MAX = 32 * MIB
"""Header and body of one batch, before compression."""
BATCH_RECORDS_MAX = 1 << 20
"""Records in one batch; a run of no-ops is not bound by it."""
COALESCE_BYTES_MAX = MIB
"""Single records that wait together become one batch of at most this size."""

FRAME_BYTES_MAX = BATCH_BYTES_MAX + 64 * KIB + 16
"""One frame: its prefix, its header and a batch."""
FRAME_HEADER_BYTES_MAX = 65_528
"""The message part of a frame: what a u16 can say, rounded down to 8."""
HELLO_BYTES_MAX = 4 * KIB
"""What a peer may send before it has said hello."""

HELLO_TEXT_BYTES_MAX = 255
HELLO_FEATURES_MAX = 32
"""Names in a hello."""
HOST_CHARACTERS_MAX = 255
"""The host of an address; a domain name has at most 253."""
HELLO_TIMEOUT_S = 5.0
"""A connection on which nobody has said hello by then is closed."""
FRAME_TIMEOUT_S = 60.0
"""A frame that has begun to arrive is complete by then, or its connection is closed."""
CONNECTIONS_MAX = 4096
"""Connections that one server holds; more are refused. Fewer where the process may open few files."""
CONNECTIONS_RESERVED = 1024
"""Of them, those that are left to servers, at most a quarter: so many fewer clients are admitted."""
GREETINGS_MAX = 256
"""Connections that have not said hello; with one more, the oldest of them is closed."""
FRAMES_BYTES_MAX = 256 * MIB
FRAMES_BYTES_RESERVED = 64 * MIB
FRAMES_WAITING_BYTES_MAX = 64 * MIB
"""Frames that have begun to arrive, over all connections of a server, by their whole lengths; of the first, the second
is left to servers. Others wait, as long as no more than the third was received of them; then they are refused."""
CONNECT_TIMEOUT_S = 5.0
"""How long one attempt to reach a server may take."""
PEER_PROBE_S = 5.0
PEER_SILENT_S_MAX = 20.0
"""A peer whose machine answers nothing: asked when idle for the first, given up after the second."""
LINGER_S = 1.0
"""A connection that this side ends has this long to take the last bytes, and the reason among them."""
LINGERING_MAX = 64
"""Connections that are refused and told so; still more are dropped without a word."""
LISTEN_BACKLOG = 1024
"""Connections that wait to be accepted."""
PATH_CHARS_MAX = 4096
"""A path in a cluster's file."""
AUDIT_FILE_BYTES_MIN = 64 * KIB
AUDIT_FILE_BYTES_MAX = 16 * GIB
AUDIT_FILES_MAX = 1000
"""What is kept of who came and what was changed: the size of a file, and how many there are."""
AUDIT_TEXT_CHARACTERS_MAX = 4 * KIB
"""What a line of it quotes of what a peer said; the rest is left out."""
TLS_LOOK_S = 1.0
"""How often files of certificates are looked at, at most, while connections are made."""
TLS_CONTEXTS_MAX = 64
"""Sets of such files that a process keeps ready."""
HTTP_REQUEST_BYTES_MAX = 8 * KIB
"""Request line and headers of a request for metrics or health."""
FAILURE_TEXT_CHARACTERS_MAX = 768
"""The text of an error that a peer is told: the answer to a hello fits into `HELLO_BYTES_MAX` in any script."""
LOG_EVENT_CHARACTERS_MAX = 16 * KIB
"""The text of one line in a server's log, which may quote what a peer said; the rest is left out."""
RECONNECT_PAUSE_S_MIN = 0.02
RECONNECT_PAUSE_S_MAX = 1.0
"""Between attempts to reach a server: doubled each time, from the first to the second."""
SEND_BACKLOG_BYTES_MAX = 64 * MIB
"""Unsent bytes to a peer that does not read; a connection beyond this is closed."""
SEND_HIGH_WATER_BYTES = 2 * MIB
"""A stream waits while more than this is unsent."""
PIECE_BYTES_MIN = 512 * KIB
"""A value of this size or more is not copied into its batch, but sent and written from where it is."""
RECEIVE_BLOCK_BYTES = 256 * KIB
"""Bytes are received into blocks of this size, or of one larger frame's."""
SPARE_BLOCK_BYTES_MAX = 16 * MIB
"""Blocks that a thread has received into and keeps, to receive into them again."""
READ_WAIT_MS_MAX = 60_000
"""How long a replica waits for its order to reach a position."""
CALL_TIMEOUT_S = 30.0
"""Deadline of a call that was not given one."""
LANE_PENDING_BYTES_MAX = 64 * MIB
"""Accepted into a lane and not yet ordered; more is refused as `Overloaded`."""
LANE_RECENT_BYTES_MAX = 32 * MIB
"""The newest batches of a replica's own lane, in memory for the peers that follow it, with the objects around them."""
APPEND_REPEATS_MAX = 64
"""Requests that wait for the answer of one batch, each a repeat of the one before; more are refused."""
REPORTS_OUTSTANDING_MAX = 2
"""Reports that no cut has covered yet; what is synced meanwhile goes into the next."""
REPORT_INTERVAL_S = 0.05
"""A replica that holds more than its newest cut repeats its report this often."""
PART_REPORT_INTERVAL_S = 1.0
"""A replica that holds an unfinished part repeats its report this often, lest one be lost."""
RUNS_SYNC_CUTS = 128
RUNS_SYNC_S = 0.1
"""Runs are synced after so many cuts of the order, or so long after the first: long before the order would have to wait
for that (`ORDERING_CUTS_UNSYNCED_MAX`)."""
WATERMARK_INTERVAL_S = 0.005
"""A stream with nothing to deliver says how far it is at most this often."""
CONNECTION_TASKS_MAX = 1024
"""Requests of one connection that wait for something; more are refused."""
RUNS_ANSWERED_MAX = 4096
"""Runs in one answer of a replica."""
MACHINE_NAME_BYTES_MAX = 256
"""By which a machine is known to those who run on it."""
DELIVER_BYTES_MAX = 2 * MIB
"""Batches in one delivery; a larger batch goes alone, and records that a filter selects in several deliveries."""
DECOMPRESSED_BYTES_MAX = 2 * BATCH_BYTES_MAX
"""Batches that a replica keeps decompressed, for the filters that look at them next."""
FILTER_STEP_BYTES = MIB
"""What a filter looks at, decompressed, before others have their turn; a larger batch is looked at in a thread."""

INFLIGHT_BYTES_MAX = 64 * MIB
"""Appended and not yet acknowledged, per handle or connection; more makes the producer wait."""
COALESCED_BATCHES_INFLIGHT = 2
"""Batches of single records that a client has in flight before it waits until the next is full."""
ATTEMPT_TIMEOUT_S = 3.0
"""How long a client waits for one server's answer before it asks another, within its deadline."""
HOME_LOOK_S = 0.5
"""How long a client waits for an answer before it asks whether the lane is still open."""
LANE_STALLED_S = 5.0
"""A lane that has not answered for so long, or cannot be reached, gets no new records for a while."""
VIEW_AGE_S_MAX = 10.0
"""A client that appends looks for new shards this often."""
STREAM_BUFFER_BYTES_MAX = 4 * MIB
"""Received from one shard and not yet taken, compressed as it came; the shard's replica waits while there is more."""
STREAM_SILENT_S = 10.0
"""A subscription that waits for so long asks the leader whether it should have got something."""
SEEN_RANGES_MAX = 4096
"""Ranges of positions whose shard a client remembers."""
TRIM_SEEN_TIMEOUT_S = 1.0
"""How long a trim waits for the replicas that can be reached to know of it."""
EXPIRE_TIMEOUT_S = 1.0
"""How long closing a handle waits for its sessions to be forgotten."""
GROUP_BYTES_MAX = 32 * MIB
"""Written and synced together; a larger batch goes alone."""
NAMED_RANGES_MAX = 256
NAMED_BYTES_MAX = 64 * MIB
"""Ranges of the engine raft that only their lane names, and the bytes of these: a start reads them all. Then they are
written to the Raft log together."""

STORAGE_FULL_RETRY_S = 1.0
"""A write that found no space is tried again this often."""
READ_RUNS_MIN = 16
READ_RUNS_MAX = 1024
"""Runs that one step of reading by position looks ahead: between these, as many as were needed lately."""
READ_LANE_BYTES_MIN = 64 * KIB
"""One cold read of one lane among several."""

SEGMENT_BYTES_MAX = 256 * MIB
"""A segment is rolled before it grows past this, unless a single batch is larger."""
SEGMENT_BYTES_MIN = 64 * KIB
"""The smallest roll size that may be asked for."""
ALLOCATE_AHEAD_BYTES = 16 * MIB
"""How far ahead of the writer a segment's space is allocated at most."""
ZERO_AHEAD_BYTES = MIB
"""How far ahead zeros are written at most, so that a sync of a small group changes no metadata."""
AHEAD_BYTES_MIN = 64 * KIB
"""How far ahead both are done in a new segment; later as far as there is data in it, up to these bounds."""
ZERO_GROUP_BYTES_MAX = 128 * KIB
"""Groups above this gain nothing from zeros written ahead (docs/performance.md), and skip them."""
INLINE_GROUP_BYTES_MAX = 2 * MIB
INLINE_SYNC_S_MAX = 0.001
INLINE_AVERAGED_GROUPS = 16
"""A server writes a group up to that size in its event loop, which spares two changes of threads, as long as the last
so many took the disk no longer than that on average; else the disk's thread writes."""
RECYCLED_SEGMENTS_MAX = 2
"""Trimmed segments kept to be written over."""
OPEN_SEGMENTS_MAX = 64
"""Descriptors of segments that a lane keeps open for reading."""
CHECKPOINT_BYTES = 16 * MIB
"""Distance between checkpoints of a segment, and so what recovery scans at most."""
INDEX_STRIDE_BYTES = 64 * KIB
"""Distance between entries of the sparse index."""
POINT_READ_BYTES = 64 * KIB
"""One cold read for a single record."""
READ_CHUNK_BYTES = MIB
"""One cold read."""
TAIL_CACHE_BYTES_MAX = 8 * MIB
"""The newest batches of a lane, kept in memory as they are stored, with the objects around them."""
TAIL_CACHES_BYTES_MAX = 128 * MIB
"""The same of all lanes of a replica together: what nothing was added to for longest goes first."""
CACHED_BATCH_BYTES_MAX = 64 * KIB
"""Batches above this are not kept in memory: the page cache serves them as well."""
LANES_OPEN_MAX = 128
"""Lanes whose files a replica keeps open although nothing is written to them."""
DESCRIPTORS_PER_LANE = 8
"""What an open lane takes at most, by which `LANES_OPEN_MAX` is lowered where a process may open few files."""
IOV_MAX = 1024
"""Buffers that one writev takes."""

SESSIONS_MAX = 4096
"""Named sessions of an embedded log; opening one more expires the one unused for longest."""
SESSION_NAME_BYTES_MAX = 255
SEQUENCE_MAX = 1 << 62
"""The numbers of a session's records stay below this."""
SESSION_BATCHES_MAX = 8
"""Last batches of a session whose receipts a retry can still get, and so what a client has in flight of one."""

CONSUMERS_MAX = 4096
"""Named consumers of one log; another name is refused until one is deleted or has expired."""
CONSUMER_NAME_BYTES_MAX = 255
CONSUMER_PARTS_MAX = 1024
"""Into so many the work of one consumer can be divided."""
CONSUMER_PARTS_TOTAL_MAX = 65_536
"""Parts of all consumers of one log together."""
GROUP_PARTS = 16
"""Of a group that is made without saying how many."""
GROUP_MEMBERS_MAX = 1024
"""Members of one group; those beyond its parts wait until one is free."""
GROUP_LABEL_BYTES_MAX = 128
"""By which people tell members apart."""
GROUP_LEASE_S = 10.0
"""A member that asks for nothing for so long loses its parts, unless it says otherwise; a new leader gives those that
it has not heard of so long."""
GROUP_LEASE_S_MIN = 1.0
GROUP_LEASE_S_MAX = 3600.0
CONSUMER_COMMANDS_MAX = 1024
"""Changes of consumers that one message, or one entry, carries."""

POLL_RECORDS_MAX = 1000
"""Records that one poll returns unless told otherwise."""
POLL_BYTES_MAX = BATCH_BYTES_MAX
"""A poll that has decompressed so much returns what it has, be it fewer records than it may return."""
FOLLOW_POLL_MS_MIN = 0.5
FOLLOW_POLL_MS_MAX = 10.0
"""A follower in another process looks for news this often: the first while busy, the second when idle."""
RETENTION_CHECK_S = 5.0
"""Retention is enforced when a segment is full, and otherwise at most this often; in a cluster, this often."""
KEEP_FOR_CONSUMERS_S = 7 * 86_400.0
"""For so long, unless it is said otherwise, retention that waits for consumers keeps what it would trim."""
RETENTION_WAIT_S = 60.0
"""What retention by age would not have trimmed but for a step of the clock, or trims at once of a log that it has just
begun to look after, is announced so long before it goes."""
RETENTION_STEPS = 10
"""What was announced goes in so many steps, one at a time that retention is enforced."""
RETENTION_LARGE_PERCENT = 10
"""A part of a cluster's log that waits is worth a warning if it is larger than this, or if a clock was set."""
RETENTION_LARGE_EMBEDDED_PERCENT = 50
"""The part of a log in a directory that retention trims at once when it begins; in a cluster everything waits."""
CLOCK_SLEW_PERCENT = 10
"""The order's time moves by so much faster, or slower, than time passes while the clocks that are agreed on differ."""
CLOCK_LOOK_US = 10_000
"""The leader compares the order's time with the clocks no more often than this."""
CLOCK_STEP_S = 1.0
"""A clock that runs ahead by less than this within one look of retention was not set: it was only read late."""
CLOCK_WARNED_S = 10.0
"""A clock of an orderer, or the order's time, that is further than this from what is agreed on is worth a warning."""
CLOCK_HEARD_S = 10.0
"""An orderer's clock that was not heard of for so long counts as unknown."""
WAITING_TOLD_S = 0.9
"""Who connects and waits for longer than this is told for what."""
CLOSE_TIMEOUT_S = 30.0
"""How long leaving the handle of a directory waits for its disk."""
PORTAL_END_S = 2.0
"""How long the end of a process waits for the loop of its synchronous handles."""

COMMAND_PENDING_MAX = 4096
"""Appends that the command line has under way before it waits for the oldest."""

DURATION_S_MAX = 100 * 365 * 86_400
"""The longest time that may be asked for, a hundred years: well within a `timedelta`, and what clocks can wait for."""
RETENTION_AGE_S_MIN = 1e-6
RETENTION_AGE_S_MAX = DURATION_S_MAX
"""What may be asked for: from the finest time there is."""
RETENTION_BYTES_MAX = 1 << 62

RUNS_UNSYNCED_MAX = 65_536
"""Runs of a lane that wait in memory for their sync."""
COPIES_QUARANTINED_MAX = 4
"""Copies of shards that a server keeps for people although nobody needs them: it does not copy another before they
deleted some."""
LEARNER_UNASKED_S = 600.0
LEARNERS_LOOK_S = 1.0
"""A learner that nobody has asked for in so long is a spare again; how often the leader looks, at most."""

SHARD_NUMBER_MAX = (1 << 20) - 1
REPLICA_NUMBER_MAX = (1 << 12) - 1
INCARNATION_MAX = (1 << 31) - 1
"""Numbers of a lane: together they fit into one signed 64-bit key that sorts as the lane does."""
BOOT_MAX = (1 << 62) - 2
"""The last boot of a replica that can be written down with another one behind it."""
BOOT_LEAP_MAX = 1 << 20
BOOT_AHEAD_S_MAX = 100 * 365 * 86_400
"""How far a boot may be ahead of the last one that is known, in starts that nobody heard of, or of the time, with which
boots begin: of a clock that is wrong."""
PART_INCARNATION_MIN = 1 << 30
"""Lanes from this incarnation on are prepared parts; starts of a replica are numbered below."""
LANE_RECORDS_MAX = 1 << 46
"""Records of one lane; with this in every lane of a cut, positions still fit into 63 bits."""
SHARD_REPLICAS_MAX = 15
"""Replicas of one shard, extra copies of a finalized one included."""
SPARES_MAX = 4096
"""Spares that wait at a leader, and learners that it knows; more are refused."""
LEARNER_NUMBER_LEAP_MAX = 256
"""How far a learner's number may be behind that of the last replica of its shard."""
ORDERING_REPLICAS_MAX = 65_536
"""Replicas of all shards that are not finalized, and so lanes in one cut."""
ORDERING_PIPELINE_CUTS = 4
"""Cuts in flight unless the cluster is configured otherwise."""
ORDERING_PIPELINE_CUTS_MAX = 64
ORDERING_INTERVAL_US_MAX = 60_000_000
"""The longest `order_interval` that may be asked for."""
ORDERING_STATE_BYTES_MAX = 256 * MIB
ORDERING_STATE_RESERVE_BYTES = 16 * MIB
"""What the ordering layer's state may take as a snapshot; nobody gets a new session, part or shard beyond it. Replicas
that start again, or are replaced, have the reserve. With what is never refused, `RAFT_SNAPSHOT_BYTES_MAX` is enough."""
SNAPSHOT_PIECE_ITEMS = 4096
"""Items of a table that are encoded at once for a snapshot, between other work: a few milliseconds."""
ORDERING_VIEW_BYTES_MAX = 24 * MIB
"""Of that, the shards and their replicas: views travel in one message."""
ORDERING_SESSIONS_MAX = 16_384
"""Sessions of one cluster; with one more, the anonymous one that was idle for longest expires."""
ORDERING_NAMED_SESSIONS_MAX = 12_288
"""Of them, those with a name; another name is refused until one has expired. The rest is for anonymous ones."""
SESSIONS_TOGETHER_MAX = 1024
"""Sessions that one entry speaks of."""
SESSIONS_CHECK_S = 5.0
"""How often a leader looks for sessions, and writers, that were idle for too long."""
SESSION_ANONYMOUS_IDLE_S = 86_400.0
"""An anonymous session that was idle for so long expires: its handle is gone, or opens another."""
SESSION_CROWD_IDLE_S = 60.0
"""While half of the anonymous sessions' places are taken, those that were not seen for so long are looked at."""
NAMES_ANSWERED_MAX = 1024
"""Sessions, or writers, in one page of a list."""
IDLE_S_MIN = 1
IDLE_S_MAX = 100 * 365 * 86_400
"""After how long an idle session, or writer, may be told to go."""
LANE_SESSIONS_MAX = 32_768
"""Sessions that a copy of a cluster's lane knows of: twice as many as can be at home in it. Beyond that it drops the
one unused for longest, and can no longer say that it has nothing of a session that it does not know."""
LANE_SESSIONS_GONE_MAX = 4096
"""The last sessions that have expired, which late batches do not bring back."""
SESSION_CARRIED_BYTES_MAX = 512
"""What a session's former home hands over to the next one."""
PART_TOKEN_BYTES = 16
"""What a part's maker alone knows: drawn at random, so that no two parts have the same."""
PART_TTL_S = 3600.0
PART_TTL_S_MIN = 1.0
PART_TTL_S_MAX = 7 * 86_400.0
"""How long a part waits to be published unless told otherwise, and what may be asked for."""
PART_BATCHES_INFLIGHT = 4
"""Batches of one part that its maker has under way."""
PART_RECENT_BYTES_MAX = 4 * MIB
"""The newest batches of a part, in memory for the peers that follow it."""
PARTS_MAX = 16_384
"""Parts of one log that are neither published nor gone, and so in one publication; one more is refused."""
PARTS_UNFINISHED_MAX = 256
"""Of them, those of one shard that are still written."""
PARTS_PUBLISHED_MAX = 131_072
"""Published parts of one shard of which something is left: each is a lane."""
PART_RENEWALS = 3
"""How often a part is renewed in the time after which it would expire, while it is written."""
WRITERS_MAX = 16_384
"""Writers whose newest publication is remembered; another one is refused until one was forgotten."""
WRITERS_TOGETHER_MAX = 1024
"""Writers that one entry speaks of."""
WRITER_NAME_BYTES_MAX = 255
"""The name of a writer, and that of the owner of a key."""
PUBLISH_KEY_MAX = (1 << 62) - 1
ORDERING_CUTS_UNSYNCED_MAX = 256
ORDERING_RUNS_UNSYNCED_MAX = 1 << 18
"""Cuts, and runs in them, that may wait until replicas have synced their runs; a shard that holds back an
older cut is left out of new ones."""
ORDERING_FORGET_CUTS_MAX = 1024
"""Cuts that one entry lets go of."""
ORDERING_LOST_RANGES_MAX = 4096
"""Ranges of lost records that are kept apart."""
REPORT_LANES_MAX = 65_536
"""Lanes in one report, and in those that an aggregator passes on in one message."""
JOINED_LANES_MAX = 131_072
"""Lanes of which a replica is told in one message when it joins; of more it is told in pieces."""
REPORTS_TOGETHER_MAX = 4096
"""Reports that an aggregator passes on in one message."""
CUT_PART_NEWS_BYTES_MAX = 4 * MIB
"""Parts of cuts that wait to be sent to an aggregator; more are sent at once."""
FIRST_TOLD_LANES_MAX = 8
"""Of a cut of no more lanes the owners are told before the others: their clients wait."""
AGGREGATOR_NUMBER_MAX = (1 << 15) - 1
AGGREGATOR_LEVEL_MAX = 7
"""What a cluster's file may say of an aggregator."""
AGGREGATOR_PAUSE_S_MAX = 0.1
"""Between an aggregator's attempts to find the leader, at most: whole shards wait for it."""
AGGREGATOR_HOLD_S_MAX = 0.05
"""Reports wait at an aggregator for as long as it took to tell the last cuts, and at most for so long."""
AGGREGATORS_AWAITED_S = 1.0
"""A new leader of a cluster with aggregators lets no replica join directly for so long, unless one has attached."""
MOVES_TOGETHER = 32
MOVES_PAUSE_S = 0.1
"""So many replicas are told at once to go to another aggregator, then that much later the next ones."""
SUSPECTS_MAX = 64
SUSPECT_S = 30.0
"""Aggregators that a replica suspects, and how long it does."""
ORDER_PROBE_S = 1.0
ORDER_PROBE_IDLE_S = 5.0
ORDER_SILENT_S = 3.0
"""Who follows the order asks whether anybody is there when a report was not followed by news for the first, or nothing
at all was heard for the second; who does not answer for the third is left."""
RAFT_MEMBERS_MAX = 64
"""Voters and learners of one group."""
RAFT_NUMBER_MAX = (1 << 15) - 1
CLUSTER_NAME_CHARS_MAX = 100
ENGINE_NAME_CHARS_MAX = 32
"""The highest number of a member of a Raft group, and the longest names of a cluster and of an engine."""
RAFT_NUMBER_LEAP_MAX = 1024
"""How far the number of a new member may be behind the last one: those that are skipped are never used."""
ORDERER_RETRY_S = 0.02
"""Between attempts of a leader whose own proposal was not taken."""
DETECTION_MS = 3000
DETECTION_MS_MIN = 100
DETECTION_MS_MAX = 600_000
"""After how long without a word a replica counts as failed, and its shard as one that may order nothing."""
DETECTION_AGGREGATED_MS_MIN = 15_000
"""The same behind aggregators: a replica needs almost as long to find out that its aggregator hangs."""
LANE_ASK_S = 10.0
"""A replica that has no lane because its shard could not order asks again after so long, if nothing tells it sooner."""
FIRST_SIGN_S = 10.0
"""A leader that has not heard of a replica in its term waits so long at least: everything may just be starting."""
LEADER_DOUBT_S = 0.1
LEADER_DOUBT_S_MAX = 1.0
"""A leader that owes an answer for so long is doubted: others are asked who leads, again later and later, at least
this often."""
LEADER_SILENT_S = 0.5
"""A server that has not heard of its leader for so long may have missed a trim."""
LEADER_WAIT_S_MAX = 1.0
LEADER_WAITS_MAX = 4096
"""An orderer that has just lost its leader keeps requests for the next one so long, and so many of them."""
REPLICAS_ASKED_FOR_ORDERERS_MAX = 4
"""Replicas that a client asks where the orderers are, when none of those that it knows answers."""
RAFT_PROMOTE_S = 0.1
"""Between attempts of a leader to promote a member that was added."""
VIEW_WAIT_S_MAX = 5.0
"""How long an orderer waits for a version of the view that it has not applied yet."""
VIEW_WAITS_MAX = 4096
"""Requests that wait for such a version; more are refused."""

LIMIT_WARNED_PERCENT = 80
"""A limit of which so much is used is worth a warning."""
STATUS_TIMEOUT_S = 2.0
"""How long a server may take to say how it is."""
