"""The shells of `ithaca.objects` for threads: generated from `awaited`, which lists the modules, but for `waiting`."""
