"""Exactly once: what continues a session (design §5). Pure, and the same wherever sessions live.

`continuing` is the rule, `carried` what a session takes along when its home changes. An embedded log keeps its sessions
in its lane (`storage.sessions`); in a cluster whoever is a session's home does, by the same rule.

Invariants:

1. A batch is accepted only if it continues its session, under the session's current epoch.
2. A batch that repeats one of the session's last `SESSION_BATCHES_MAX` is answered with that one's place.
3. Where the records of that one are still known, and are others, the batch is refused instead (`SequenceConflict`).
4. A number below those, a gap or a partial overlap is refused; so is any batch of a forgotten session.
"""
