"""Where named consumers stand, as a pure state that every engine and the embedded log carry in theirs.

`table` is that state: commands in (`model.consumers`), one outcome for each out. `idle` says on a leader which
consumers nobody uses any more, `holding` how long retention waits for them, `lagging` how far they are behind.
`assigning` says who has which part of a group, `groups` does so for all groups of a log, in the memory of whoever
leads. `limits` are bounds.

What holds, and the tests cite these numbers:

1. Equal commands, from any prefix or snapshot on, give equal tables and outcomes.
2. A position never falls, but by a reset.
3. A commit counts under the newest epoch of its part alone. Epochs are stamps, which are never given twice: not to
   another handle, nor to another consumer of the same name.
4. A command that comes twice, one right after the other, does what it does once.
5. What is there is bounded: a name that would be too many is refused, and none makes room for another.
"""
