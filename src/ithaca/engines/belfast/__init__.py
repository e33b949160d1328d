"""Belfast: Scalog with an order that is fixed before, so that records are delivered before they are ordered (SpecLog).

`speculation` is all that it decides, as pure cores over those of `scalog`; `limits` are its bounds. `leading` is what a
leader decides, `replica` what a storage server does, `server` and `client` are the shells, `messages` is what is said.
`engine` puts it together, `name` is what it is called.
"""
