"""Handles of named consumers, for callers that wait: generated from `awaited`, which lists the modules, but
for `waiting`.
"""
