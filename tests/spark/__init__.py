"""A package of its own, so that its log is gone when its last test has run."""
