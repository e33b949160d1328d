"""A small authority: certificates for the servers and users of a cluster, for those who have none of their own."""
