"""Tasks that compute before the order is final, and publish after (SpecLog, section 5 and Figure 6).

A task applies each record when it is delivered, publishes what came of it when the record is confirmed, and undoes what
it applied, newest first, when a speculation fails:

```python
import ithaca.speculation

balances: dict[bytes, int] = {}

def apply(record):                       # gives what undo and publish need
    before = balances.get(record.key, 0)
    balances[record.key] = before + int(record.value)
    return before

def undo(record, before):
    balances[record.key] = before

def publish(record, before):             # only what is final is shown to anybody
    print(record.key, before + int(record.value))

ithaca.speculation.run(log, apply, undo, publish)
```

`results` is the same as an iterator, for those who write the loop themselves. `ithaca.speculation.aio` has both names,
awaited. `ledger` is the pure rule behind them, `flow` the loop, written once, and `tasks` drives it for callers that
wait.

1. Records are applied in the order of their positions, each once between two failures.
2. What is published is confirmed, in the order of positions, and each record once.
3. Whatever ends a task, its state is that of the records which were published, no more and no less.
"""

from ithaca.speculation.tasks import Results, results, run

__all__ = ["Results", "results", "run"]
