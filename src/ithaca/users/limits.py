"""Bounds of what servers do about users; those of the state are in `model.security.users`."""

USERS_ASK_S = 0.25
"""How often a server that does not hold the table asks an orderer whether it has changed."""
USERS_STALE_S_MAX = 10.0
"""A server that has not heard of the table for so long lets no client do anything: somebody may have been revoked."""
TOKEN_CHECKS_PER_S = 50
"""Tokens that a server has not seen before and hashes, in a second: others are told to try again."""
TOKENS_REMEMBERED_MAX = 4096
"""Tokens that a server has hashed and found valid, by a digest of its own, so that it need not do it again."""
