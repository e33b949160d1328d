"""Clients of Belfast: scalog's, which know of empty positions. `log` is the handle, `reading` single reads,
`speculation` what is delivered before its place is final, over `streams`."""
