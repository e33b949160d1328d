"""A small authority: certificates for the servers and users of a cluster, for those who have none of their own.
`authority` is one in a directory, `local` gives certificates to a cluster on this machine.
"""
