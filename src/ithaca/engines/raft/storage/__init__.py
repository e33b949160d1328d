"""The disk of a server: `shared_log` keeps lane and Raft log in step, `names` is what the lane says of its newest
ranges before the Raft log does, `staging` is what waits to be written, `stored` is what a stopped server's directory
holds.

```
<directory>/raft.log   terms, votes, ranges, the compaction point (`ithaca.storage.raftlog`)
            lane/      the data log (`ithaca.storage.lane`), with the names of its newest ranges
            cursor     how much of it was known to be agreed on when the server stopped: an LSN as msgpack, in the
                       format of `ithaca.storage.checked_file`
```

What holds, after any crash:

1. Of every range that is on the disk, all bytes are.
2. The lane ends with the last range, or where the compaction point says if no range is behind it; or with what was
   trimmed, if ranges of that were dropped.
3. What was synced before an answer left is there.
4. What the Raft log went past does not come back: a name counts while the Raft log ends where it did then.
"""
