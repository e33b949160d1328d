"""The systems that are compared: `ithaca_log`, and what a user would pick instead: `kafka`, `bookkeeper` (whose client
is in Java), `nats`, `redis`, and on one machine `local`.
"""
