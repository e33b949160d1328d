"""The storage engine: lanes of batches on a disk that only promises what was synced.

Read `lane` first; `segment` and `index` are its files, `recovery` opens them after a crash, `runs` maps
positions to LSNs, `disk` is the port to the operating system (and to the simulator), `raftlog` keeps a
Raft server's term, vote and log on the same port.
"""
