"""What a world of the engine `belfast` has beyond that of `scalog`; `engine` puts it together.

`paths` is the code that its campaigns must reach. `speculators` are clients that speculate, `lost_lanes` faults that
take a shard its primary. `witness` has the rules of slots, `silence` the rule that an idle order says nothing.
"""
