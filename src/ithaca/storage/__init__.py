"""The storage engine: lanes of batches on a disk that only promises what was synced.

Read `lane` first: the one sequence of batches that everything else is about. `segment` and `index` are its files,
`state` and `sessions` what its entries add up to, `recovery` opens it after a crash, `truncation` cuts it back,
`reader` and `cache` read it, `synced` tells followers in other processes, `verify` checks every byte.

`raftlog` keeps a Raft server's term, vote and log, `raftlog_records` says what its records add up to, and `raft_files`
finds it in a server's directory. Below everything: `disk` is the port to the operating system (and to the simulator),
`residence` says what of a file is in memory, `checked_file` a small file that is replaced as a whole, `private_copy`
files that a reader may repair, `offline` lanes of stopped servers, `directory_lock` the lock of a directory. How a
cluster's lanes lie on a disk is said by its engine.

Invariants:

1. What a sync has returned for is found again after any crash. Damage to it is `Corrupt`, never a shorter lane, unless
   a power loss took back the mark of the very last group.
2. What no sync has returned for may be found or not; if it is, it is synced again before it counts.
3. After a failed sync nothing more is written. `StorageFull` changes nothing, and the write can be repeated.
4. A batch is read only where it belongs: its checksum, its lane and its LSN are checked first.
5. The state of a lane is a function of its entries alone.
"""
