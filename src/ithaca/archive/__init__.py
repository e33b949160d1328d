"""Keeping and moving what a log holds: backups, restores, copies from log to log, and what is left of a damaged one.

All of it works by the public interface and the batch format, so on every engine and on the log of a directory alike.

`folder` is a backup as files, in one of the `places` where these may lie; `backup` makes one up to the tail as it was
at the beginning, adds to it, and checks it. `copying` appends what another log or a backup holds, by a session, so that
whatever ends it, it goes on where it was and nothing is there twice. `salvage` takes what can be read out of a damaged
log of a directory. `progress` is what whoever waits is told.
"""
