"""Handles of named consumers, awaited: the source. `book` first, then `handle`, and `member` of groups. `lagging` is
how far a position is behind the tail, `transaction` what was consumed and written in one step, `waiting` what pauses.
"""
