"""How many servers: of a shard, and of a group in which most must agree; and how many of them may be lost (`f`)."""


def shard_size(f: int, masking: bool) -> int:
    """How many replicas a shard needs so that `f` may be lost or, with masking, be slow.

    >>> shard_size(1, masking=False), shard_size(1, masking=True)
    (2, 3)
    """
    return 2 * f + 1 if masking else f + 1


def shard_f(replicas: int, masking: bool) -> int:
    """How many of a shard's replicas may be lost: the inverse of `shard_size`.

    >>> shard_f(2, masking=False), shard_f(3, masking=True)
    (1, 1)
    """
    return replicas - majority(replicas) if masking else replicas - 1


def majority(members: int) -> int:
    """How many of a group must agree, so that any two that agree have a member in common; others may be lost.

    >>> [majority(members) for members in (1, 2, 3, 4, 5)]
    [1, 2, 2, 3, 3]
    """
    return members // 2 + 1
