"""Raft on a server, whatever it agrees on: `links` (its messages), `members` and `group` (who votes), `directory`."""
