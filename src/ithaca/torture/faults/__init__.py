"""What is done to a cluster: `catalogue` lists it, `injectors` says what every injector has; `process`, `link`, `disk`
and `view` are the injectors, by what they harm.
"""
