"""Handles of named consumers, of every engine and of the embedded log.

They are made of the public log alone: a subscription, and changes of consumers (`Log.change_consumers`). `awaited` is
the source, and `tools/generate_sync.py` writes `blocking`; `cluster` asks a leader, in any engine. `wanted` checks what
was asked for, `known` shows which consumers there are. Pure: `committing` says when a consumer commits by itself,
`held_parts` how far a member of a group is with each part.
"""
