"""What a world of the engine `raft` has beyond that of any engine; `engine` puts it together.

`configuration` is what it draws, `paths` the code that its campaigns must reach, `invariants` what must hold after
every step.
"""
