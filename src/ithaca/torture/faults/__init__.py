"""What is done to a cluster: `catalogue` lists it, `injectors` does it; `process`, `link`, `disk` and `view` by what it
is done to.
"""
