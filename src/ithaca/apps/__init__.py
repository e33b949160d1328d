"""Programs that use the log as its users do, through the public interface alone.

`demo` tells a story in real processes: a producer, two followers, a crash, the recovery. Read it first;
`demo_processes` are its processes, `transactions` the records, `demo_display` what one sees.

Invariants of the demo, each checked at the end of every run:

1. Nothing acknowledged is lost by `kill -9`.
2. Nothing is doubled by the producer that goes on after it, although it repeats its last batch.
3. Every follower sees the same records at the same positions, and they are those that were produced.
"""
