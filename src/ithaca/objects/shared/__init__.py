"""What `awaited` and `blocking` have in common: whatever neither of them waits for.

`following` is where a follower of the log stands and who waits for it to get further, `replica` what is asked of one,
`store` what a store asks of its state, `versions` what is known of versions, `marks` snapshots in the log as records.
"""
