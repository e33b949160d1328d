"""Letting rows go: of the whole log up to a position, and one by one (§2.6 of the paper)."""

from ithaca.engines.corfu.sequencing.calls import Known, TrimRows
from ithaca.engines.corfu.sequencing.commands import TrimLog, Void
from ithaca.engines.corfu.sequencing.flows.flow import AskRaft, NoAnswer, Pause, Steps
from ithaca.engines.corfu.sequencing.flows.knowledge import Knowledge, asked, holds
from ithaca.engines.corfu.sequencing.flows.reading import tail
from ithaca.engines.corfu.sequencing.limits import RETRY_MS
from ithaca.engines.corfu.sequencing.rows import first_position, row_of


def trimmed_log(knowledge: Knowledge, before: int) -> Steps[int]:
    """Let everything before a position go. Returns the tail's position: if that is lower, nothing was trimmed."""
    while True:
        end = first_position((yield from tail(knowledge)))
        if before > end:
            return end
        answer = yield AskRaft(TrimLog(knowledge.epoch, before))
        if isinstance(answer, NoAnswer):
            yield Pause(RETRY_MS)
        elif isinstance(answer, Void):
            knowledge.learn(answer.known)
        elif isinstance(answer, Known):
            knowledge.learn(answer)
            yield from trimmed_rows(knowledge, 0, row_of(before), before)
            return end


def trimmed_rows(knowledge: Knowledge, low: int, high: int, before: int = 0) -> Steps[None]:
    """Let the rows `[low, high)` go on every unit that has some, and of the log everything before a position."""
    while low < high or before:
        projection = knowledge.projection
        few = None if before or high - low > 64 else {projection.chain(row) for row in range(low, high)}
        units = {unit for chain in (projection.chains() if few is None else few) for unit in chain}
        is_over = False
        for unit in sorted(units):
            answer = yield from asked(knowledge, projection, unit, TrimRows(projection.epoch, low, high, before))
            is_over = answer is None
            if is_over:
                break
        if not is_over and (yield from holds(knowledge, projection)):
            return
