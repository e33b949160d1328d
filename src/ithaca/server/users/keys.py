"""Rights by prefixes of keys: what somebody may append, and what it may read of a batch."""

import numpy as np

from ithaca.model.errors import NotAllowed
from ithaca.model.records import KeyFilter
from ithaca.protocol.filters import Filter, key_filter
from ithaca.runtime.connection import Connection
from ithaca.users.caller import Caller
from ithaca.users.rights import outside, shown_prefixes
from ithaca.wire.batch import Batch
from ithaca.wire.selection import Within, matching, taken


def check_keys(caller: Caller, batch: Batch) -> None:
    """`NotAllowed` unless the user may append every record of the batch."""
    prefixes = caller.prefixes("append")
    if prefixes is None:
        return
    if not batch.has_keys:
        raise outside(caller.name, "append", prefixes, None)
    columns = batch.columns()
    allowed = matching(columns, 0, batch.count, Within(prefixes))
    if len(allowed) < batch.count:
        row = int(np.setdiff1d(np.arange(batch.count), allowed)[0])
        offsets, data, valid = columns.key_vectors()
        key = data[offsets[row] : offsets[row + 1]].tobytes() if valid[row] else None
        raise outside(caller.name, "append", prefixes, key)


def check_appended(connection: Connection, batch: Batch) -> None:
    """The same for whoever is on a connection, if the cluster has users."""
    if connection.caller is not None:
        check_keys(connection.caller, batch)


def filter_for(connection: Connection, where: Filter | None) -> KeyFilter | Within | None:
    """What a stream is to select: what was asked for, as far as the user may read it; None for everything.

    `NotAllowed` for everything, if the user may read some of it: a reader that asks for all takes no gaps.
    """
    asked = None if where is None else key_filter(where)
    prefixes = None if connection.caller is None else connection.caller.prefixes("read")
    if prefixes is None:
        return asked
    if asked is None:
        named = shown_prefixes(prefixes)
        raise NotAllowed(
            f"user {connection.caller.name if connection.caller else ''} may read by prefix alone, {named}: read with "
            "a filter, such as where=KeyFilter.prefix(...)",
            right="read",
            prefix=named,
        )
    return Within(prefixes, asked)


def readable_row(connection: Connection, batch: Batch, row: int) -> Batch | None:
    """A batch of this record alone, for somebody who may read it by its prefix; None for who may read all.

    `NotAllowed` for a record that it may not read.
    """
    caller = connection.caller
    prefixes = None if caller is None else caller.prefixes("read")
    if caller is None or prefixes is None:
        return None
    columns = batch.columns() if batch.has_keys else None
    if columns is None or not len(rows := matching(columns, row, row + 1, Within(prefixes))):
        named = shown_prefixes(prefixes)
        raise NotAllowed(
            f"user {caller.name} may read by prefix alone, {named}, and the record there has another key",
            right="read",
            prefix=named,
        )
    return taken(batch, columns, rows)
