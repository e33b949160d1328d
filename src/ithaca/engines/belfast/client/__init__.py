"""Clients of Belfast: scalog's, which know that a position may be empty: `log` is the handle, `reading` single reads."""
