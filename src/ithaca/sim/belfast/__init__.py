"""What a world of the engine `belfast` has beyond that of `scalog`; `engine` puts it together.

`speculators` are clients that speculate, `witness` has the rules of slots.
"""
