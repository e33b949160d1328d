"""The meaning of linearizability, by search: is there an order of the operations that a plain list explains?

Exponential, and as plain as can be: nothing here knows why the checker needs no search.
"""

from collections.abc import Sequence

from ithaca.proof.history import Append, Hole, Id, Read, Tail

Operation = Append | Read | Tail
Log = tuple[Id | Hole, ...]


def is_linearizable(operations: Sequence[Operation], final: Log) -> bool:
    """Whether the operations can have taken effect one after the other, each while it ran, and led to `final`.

    An append with an unknown outcome may take effect at any time after its call, or never. One that failed does not.
    """
    wanted = [operation for operation in operations if not (isinstance(operation, Append) and operation.st == "fail")]
    return _search((), wanted, final)


def _search(log: Log, left: list[Operation], final: Log) -> bool:
    if log == final and all(_is_optional(operation) for operation in left):
        return True
    for at, operation in enumerate(left):
        rest = left[:at] + left[at + 1 :]
        if any(_end(other) < operation.inv for other in rest):
            continue
        after = _applied(log, operation)
        if after is not None and _search(after, rest, final):
            return True
    return False


def _is_optional(operation: Operation) -> bool:
    return isinstance(operation, Append) and operation.st == "info"


def _end(operation: Operation) -> float:
    return float("inf") if _is_optional(operation) else operation.ret


def _applied(log: Log, operation: Operation) -> Log | None:
    """The log after the operation; None if that cannot have been its answer now."""
    match operation:
        case Append():
            position = len(log) + 1
            if operation.st == "ok" and operation.pos != position:
                return None
            session, first = operation.id
            return (*log, *((session, first + row) for row in range(operation.n)))
        case Read():
            found = log[operation.pos - 1] if operation.pos <= len(log) else None
            return log if found == operation.id else None
        case Tail():
            return log if operation.n == len(log) + 1 else None
