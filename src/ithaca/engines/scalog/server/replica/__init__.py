"""A replica: takes appends into its own lane, copies those of its peers, reports, acknowledges and serves reads.

Read `server` first, and `performing` for what comes of the core's effects. Its parts: `gateway` (what clients and peers
ask), `order` (the link to the leader), `disk` (lanes on the disk), `feed` and `copies` (lanes to and from peers),
`parts` (prepared ones), `streams` (reading), `identity` (who it is), `damage`
(what was found damaged), `status`. `spare` waits to become one.
"""
