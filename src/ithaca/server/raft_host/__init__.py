"""Raft on a server, whatever it agrees on: one part that any state machine can use.

`host` is the part: give it a state machine, a place where its store is, and an owner that listens. Read it first.
`identity` is what a member of the group is, and what it is called outside; `directory` whose directory it is, and what
the store in it holds; `links` and `peers` carry Raft's messages, those that this server dials and those that others
have dialled; `group` is who the members are, `members` how they come and go, `refusals` why Raft refuses something.
`orderers` are those of a cluster's file as members of such a group, `hosting` is the server that one of them is.
"""
