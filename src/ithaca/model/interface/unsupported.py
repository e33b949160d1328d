"""How an engine refuses what it cannot do, and says which engines can."""

from ithaca.model.engine import Feature, engines_with
from ithaca.model.errors import Unsupported

_INSTEAD = {
    Feature.PREPARED: "; append_many is atomic as well, in one shard, and idempotent with a session",
}


def unsupported(feature: Feature) -> Unsupported:
    """The error to raise.

    >>> str(unsupported(Feature.TRIM)).startswith("this log has no trimming: use a cluster with the engine ")
    True
    """
    names = " or ".join(engines_with(feature))
    return Unsupported(
        f"this log has no {feature.value}: use a cluster with the engine {names}{_INSTEAD.get(feature, '')}"
    )


def refuses(kind: type, name: str, interfaces: "tuple[type, ...]") -> bool:
    """Whether a class leaves a public method to the interface, where it does nothing but refuse."""
    if name.startswith("_"):
        return False
    function = getattr(kind, name, None)
    return any(
        function is vars(each).get(name) and not getattr(function, "__isabstractmethod__", False)
        for each in interfaces
        if name in vars(each)
    )
