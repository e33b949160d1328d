"""Handles of named consumers, awaited: the source. `book` first, then `handle`, and `member` of groups."""
