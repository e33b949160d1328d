"""The shell around cores and storage: what waits, what syncs, what is sent, who is woken.

Cores decide and storage writes; here are the threads, sockets and timers between them. What only one role needs is
in `server`, `client` or `embedded`.

Read `group_commit` first: what arrives during a sync goes into the next, in the calling thread or in a disk thread.
`lane_writer` is the same for a lane of a cluster, under an event loop. `raft` runs a `RaftCore`. Both writers hand what
is slow to a `disk_queue`; `inline_writes` says when they may write in the loop. `machine` is where time, chance and
disk threads (`disk_thread`) come from, and what a simulator replaces. `connection` is one framed connection from either
side, `together` hands on in one go what came together, `dialling` begins one, `tls` encrypts it, `listener` is the one
port of a server, `admission` who may connect to it, `frame_budget` what memory frames may take that have begun to
arrive, `passage` what stands between a client and that server where there are users. `metrics` and `logs` are what
people see. `read_ahead`, `futures`, `wakeup`, `forks` and `checks` are what the handles of all engines share, `backoff`
the pauses of whoever tries again.

Invariants:

1. One thread at a time writes a lane, and one a Raft log; what was done is told in order.
2. A failed sync is never repeated: nothing after it is written, acknowledged or sent. A full disk is tried again.
3. Everything received is bounded: what a peer sends before and after its hello, what it leaves unread, how long it
   takes for either. Whoever passes a bound loses its connection, and nobody else notices.
4. A connection passes on only what was decoded and checked, in the order in which it came.
5. A forked child does nothing with what it inherited.
"""
