"""Belfast: Scalog with an order that is fixed before, so that records are delivered before they are ordered (SpecLog).

`speculation` is all that it decides, as pure cores over those of `scalog`; `limits` are its bounds.
"""
