"""Arguments that more than one of these functions takes."""

from ithaca.model.arguments import instance
from ithaca.model.interface import Log


def check_log(log: object, what: str = "log") -> None:
    """The log of a directory or of a cluster, and no awaited one: nothing here waits for it."""
    instance(log, Log, what, "a log of ithaca.open or ithaca.connect")
