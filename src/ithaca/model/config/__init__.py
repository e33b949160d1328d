"""Settings: `log` those of a log, `cluster` the file of a cluster (`text` writes it), by tables `failures`, `idle`,
`retention`, `tls`, `users` and `audit`, and `slots` for the engine belfast. `loading` reads the text of such a file.
`rules` says what a setting may be, `toml_lines` names mistakes by their line.
"""
