"""The tests mirror `src/ithaca`; helpers are imported as `tests.<package>.<module>`."""
