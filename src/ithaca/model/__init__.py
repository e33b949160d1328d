"""The words of Ithaca as types: positions, records, receipts, errors, limits, settings. No I/O.

Everything else imports this package, and it imports nothing of ours. Read `positions` first, then `records`; `users`
are who may do what; `errors` prints the whole error tree; `limits` names every bound; `arguments` refuses what callers
get wrong; `interface` is the contract that every engine fulfils, in its synchronous and asynchronous form.
"""
