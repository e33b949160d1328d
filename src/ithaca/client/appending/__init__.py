"""Appends on their way: batches with numbers, sent in order through sessions, until each is settled.

`coalescing` gathers records into batches, `outgoing` is a batch on its way, `send_queue` those of one session;
`under_way` counts what a handle has under way, with its `deadlines`; in a `named_session` the caller gives numbers.
"""
