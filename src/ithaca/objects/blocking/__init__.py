"""The shells of `ithaca.objects` for threads: generated from `awaited`, but for `waiting`."""
