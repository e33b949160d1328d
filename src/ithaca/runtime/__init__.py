"""The shell around cores and storage: what waits, what syncs, what wakes whom.

`group_commit` gathers what arrived during the last sync into the next one, in the calling thread or in a
disk thread.
"""
