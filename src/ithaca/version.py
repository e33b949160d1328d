"""The version of the package, and nothing else, so that set-up tools can read it without imports."""

VERSION = "0.1.0"
