"""The `ithaca` command: every job that can be done on a log without writing a program.

`main` is what is called, and turns errors into exit statuses; `app` puts the commands together; read these first.
`produce` appends, `publish` does so in one atomic step, `consume` reads and follows, `upkeep` inspects, trims and
verifies, `keep` makes copies, `consumer` is about named consumers; `cluster` is about clusters and their servers,
`proving` tries the promises. `bench` and `demo` only wire `ithaca.bench` and `ithaca.apps`, `store` only
`ithaca.objects`. `options` and `option_groups` are what several commands take, `target` is the one place that opens a
log, `template` and `output` are how records are printed, `lines` and `pipeline` how input becomes records, `progress`
what a terminal shows.

Invariants:

1. Importing this package loads neither the log nor numpy: modules of ours are imported inside the command functions, so
   that `ithaca --help` answers at once. A server is started without `typer` and what it brings (`cluster.serving`).
2. Standard output carries results only; progress and errors go to standard error.
3. Exit status: 0 done, 1 the log refused or failed, `check-history` found a promise broken, `store get` no such key, or
   `store cas` another value than expected, 2 wrong usage, or a
   history that proves nothing, 3 `verify` found damage or `serve` fenced itself, 130 Ctrl-C; that is how `up` and
   `serve` are meant to be stopped, so they end with 0.
"""
