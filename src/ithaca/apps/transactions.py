"""Seeded transactions: number n is the same bytes wherever and whenever it is made.

So a producer can go on at any number after a crash, and a checker needs no copy of what was sent.
"""

from hashlib import blake2b

SEED = b"ithaca"
ACCOUNTS = 5000


def transaction(number: int) -> tuple[bytes, bytes]:
    """Key (the account) and value (a JSON object) of transaction `number`.

    >>> transaction(1) == transaction(1), transaction(2)[1][:8]
    (True, b'{"id":2,')
    """
    digest = blake2b(b"%d" % number, key=SEED, digest_size=24).digest()
    account = int.from_bytes(digest[:4], "big") % ACCOUNTS
    amount_cents = int.from_bytes(digest[4:7], "big")
    key = b"account-%04d" % account
    value = b'{"id":%d,"account":"account-%04d","amount_cents":%d,"memo":"%s"}' % (
        number,
        account,
        amount_cents,
        digest[8:].hex().encode("ascii"),
    )
    return key, value
