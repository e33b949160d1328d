"""What the servers and clients of a cluster say to each other: messages in frames (`wire.frame`), no sockets.

Every message is a frozen struct with a type number of its own; its msgpack form is the frame's header, or,
when it is too large for that, the frame's payload. Batches travel beside it untouched, as the payload.
A connection begins with `Hello` from whoever dialled and `Welcome`, or a `Failure`, from the other side.

Read `messages` first: its table says who sends what to whom. The messages themselves are in modules of their own, by
what they are about; `greeting` is said on every connection, `members` among orderers, `consumers` and `users` are
asked of any leader, `filters` are filters on keys, `fields` bounds of fields. `codec` turns messages into frames and
back, `together` hands on in one go those that came together, `failures` turns errors into messages and back.
"""
