"""Who uses the cluster meanwhile, each a process: `client` is what they share, `session_producer`, `plain_producer` and
`publisher` append, `readers` read, `speculator` reads before places are final, `consumers` consume, and `taking` is
what their history has of it; `outsider` does what it may not; `batches` is what is appended.
"""
