"""What befalls a simulated cluster. `drawing` draws the next fault, again and again; begin there.

`targets` says whom a fault may befall. By what they break: `processes`, `links`, `disks`, `clocks`; `shards`,
`replacing` and `members` change the cluster itself. Drawn apart from these, in some seeds only: `running` (damage and
broken connections under servers that go on) and `scripted` (several steps, each at the worst moment).
"""
