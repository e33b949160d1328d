"""What a world of the engine `corfu` has beyond that of any engine; `engine` puts it together.

`configuration` is what it draws, `faults` what befalls it alone, `paths` the code that its campaigns must reach;
`invariants` is what must hold after every step, `witness` looks at single calls, `rows` is what all units have
together, `row_times` the times of the order, which has rows that nobody writes. A `placer` is a client that writes at
positions of its own choice; `scanning` reads ranges in chunks, from units' files where they can be reached.
"""
