"""Is there one order of a store's operations that explains all that its clients saw? (Wing and Gong, with memory.)

An operation takes effect at one moment between its call and its return. One whose outcome is unknown may take effect at
any time after its call, or never. All keys are one object, since operations span several.
"""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from math import inf
from pathlib import Path
from threading import Lock
from typing import Any

from ithaca.model.errors import IthacaError, Unavailable
from ithaca.objects import Store

State = tuple[str | None, ...]
"""The value of each key, by number."""


@dataclass(frozen=True)
class Operation:
    """What a client did, and what came of it; `result` is None when that is not known."""

    name: str
    called: float
    returned: float
    keys: dict[int, str | None]
    writes: dict[int, str | None] = field(default_factory=dict)
    result: Any = None

    def after(self, state: State) -> State | None:
        """The state behind it; None when it cannot have given its result here."""
        if self.name == "get":
            return state if self.result == {key: state[key] for key in self.keys} else None
        succeeds = self.name == "put" or all(state[key] == value for key, value in self.keys.items())
        if self.name == "test" and self.result is not None and self.result != succeeds:
            return None
        if not succeeds:
            return state
        changed = list(state)
        for key, value in self.writes.items():
            changed[key] = value
        return tuple(changed)


def explained(history: list[Operation], keys: int) -> bool:
    """Whether some order explains the history."""
    by_call = sorted(history, key=lambda each: each.called)
    known = [each for each in by_call if each.returned != inf]
    operations = known + [each for each in by_call if each.returned == inf and each.name != "get"]
    done_all = (1 << len(known)) - 1
    start: State = (None,) * keys
    stack: list[tuple[int, State]] = [(0, start)]
    seen = {(0, start)}
    while stack:
        done, state = stack.pop()
        if done & done_all == done_all:
            return True
        horizon = min(each.returned for number, each in enumerate(known) if not done >> number & 1)
        for number, operation in enumerate(operations):
            if done >> number & 1 or operation.called > horizon:
                continue
            behind = operation.after(state)
            if behind is not None and (done | 1 << number, behind) not in seen:
                seen.add((done | 1 << number, behind))
                stack.append((done | 1 << number, behind))
    return False


class Recorder:
    """Clients call the store through it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.history: list[Operation] = []
        self._lock = Lock()
        self._clock = clock

    def put(self, store: Store, writes: dict[int, str | None]) -> None:
        self._record("put", {}, writes, lambda: store.put_many(coded(writes)) > 0)

    def test(self, store: Store, expected: dict[int, str | None], writes: dict[int, str | None]) -> None:
        self._record("test", expected, writes, lambda: store.test_and_put(coded(expected), coded(writes)))

    def get(self, store: Store, keys: list[int], *, at_least: int | None = None) -> None:
        def got() -> dict[int, str | None]:
            found = store.get_many([b"%d" % key for key in keys], at_least=at_least)
            return {int(key): None if value is None else value.decode() for key, value in found.items()}

        self._record("get", dict.fromkeys(keys), {}, got)

    def _record(
        self, name: str, keys: dict[int, str | None], writes: dict[int, str | None], call: Callable[[], Any]
    ) -> None:
        called = self._clock()
        try:
            result = call()
        except IthacaError as error:
            if not error.outcome_unknown and not isinstance(error, Unavailable):
                raise
            operation = Operation(name, called, inf, keys, writes)
        else:
            operation = Operation(name, called, self._clock(), keys, writes, result)
        with self._lock:
            self.history.append(operation)

    def save(self, path: Path) -> None:
        """For whoever looks at a history that nothing explains."""
        path.write_text("\n".join(json.dumps(asdict(each)) for each in self.history))


def coded(values: dict[int, str | None]) -> dict[bytes, bytes | None]:
    return {b"%d" % key: None if value is None else value.encode() for key, value in values.items()}
