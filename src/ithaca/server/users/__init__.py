"""Users, enforced: who is let in, what each message takes, and how servers learn of changes. The same in every engine.

`login` says who somebody is, `gate` lets it in, passes on what it may ask for, and ends what it may not go on with;
`rules` are what messages of all engines take, which an engine's own table joins; `keys` is what a right by prefixes of
keys allows of a batch; `metering` is how much somebody uses;
`following` is how a server learns of the table that does not hold it; `desk` is how orderers answer about it. What is
decided is in `ithaca.users`.

A cluster whose file has no `[users]` makes none of these: nothing is sent, and nothing is looked at.
"""
