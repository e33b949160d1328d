"""Prepared appends in the agreed state: `parts` that wait, with their `entries` and `outcomes`, and the `writers` that
have published some. On the leader: `expiry` is when they expire, `finishing` when they are sealed.
"""
