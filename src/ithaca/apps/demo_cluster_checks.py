"""The claims of the demo, checked against the log itself: exactly once, in order, where the receipts say."""

from array import array

from ithaca.apps.demo_cast import DemoFailed
from ithaca.apps.demo_cluster_processes import Acknowledged
from ithaca.apps.running_hash import RunningHash
from ithaca.apps.transactions import origin, transaction
from ithaca.model.records import Record


class Checker:
    """Sees every record of the log in order, and knows what each producer's transactions are."""

    def __init__(self, producers: int, last: int) -> None:
        self._last = last
        self._positions = {producer: array("q") for producer in range(1, producers + 1)}
        self._hash = RunningHash()
        self.value_bytes = 0

    def see(self, records: list[Record]) -> None:
        """The next records; `DemoFailed` when one is not what must come next from its producer."""
        self._hash.add(records)
        for record in records:
            producer, number = origin(record.value)
            seen = self._positions.get(producer)
            if seen is None:
                raise DemoFailed(
                    f"position {record.position} holds a transaction of producer {producer}: there is none"
                )
            if number != len(seen) + 1:
                what = "doubled or out of order" if number <= len(seen) else "lost or out of order"
                raise DemoFailed(
                    f"position {record.position} holds transaction {number} of producer {producer} where "
                    f"{len(seen) + 1} must come: {what}"
                )
            if (record.key, record.value) != transaction(number, producer):
                raise DemoFailed(f"position {record.position} holds {record.value!r}, which nobody has sent")
            seen.append(record.position)
            self.value_bytes += len(record.value)

    def finish(self, acknowledged: list[Acknowledged], digests: dict[str, str]) -> None:
        """Everything is there; every receipt and every follower agree with it."""
        for producer, seen in self._positions.items():
            if len(seen) != self._last:
                raise DemoFailed(f"producer {producer} sent {self._last} transactions, and the log holds {len(seen)}")
        for each in acknowledged:
            held = self._positions[each.producer][each.first - 1 : each.first - 1 + each.count]
            if list(held) != list(range(each.position, each.position + each.count)):
                raise DemoFailed(
                    f"producer {each.producer} was told that transaction {each.first} is at position {each.position}, "
                    f"and it is at {held[0]}"
                )
        for name, digest in digests.items():
            if digest != self._hash.hexdigest():
                raise DemoFailed(f"{name} has seen other records, or another order, than the log holds")
