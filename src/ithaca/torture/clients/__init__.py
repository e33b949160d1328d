"""Who uses the cluster meanwhile, each a process: `client` is what they share, `session_producer`, `plain_producer` and
`publisher` append, `readers` read; `batches` is what is appended.
"""
