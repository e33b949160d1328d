"""Handles of named consumers, of every engine and of the embedded log.

They are made of the public log alone: a subscription, and changes of consumers (`Log.change_consumers`). `awaited` is
the source, and `tools/generate_sync.py` writes `blocking`; `cluster` asks a leader, in any engine.
"""
