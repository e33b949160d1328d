"""Handles of named consumers, for callers that wait: generated from `awaited`."""
