"""Clients of the engine: `log` is the handle. Read it first.

`links` reaches servers, `driving` runs flows over them, `tokens` asks the sequencer for rows for all of them together;
`gathering` makes batches of single records, `writers` are the sessions that plain appends rotate, `session` those that
users name; `rows` fetches stretches of rows, and fills holes, `scan` reads long ranges from the files of units on this
machine as far as it can (`local_rows`), `placing` writes at positions of the user's choice; `admin` changes a cluster,
`enlisting` adds units to it; `places` says where the servers are.
"""
