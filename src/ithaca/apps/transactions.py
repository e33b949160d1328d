"""Seeded transactions: number n of a producer is the same bytes wherever and whenever it is made.

So a producer can go on at any number after a crash, and a checker needs no copy of what was sent.
"""

from hashlib import blake2b

SEED = b"ithaca"
ACCOUNTS = 5000


def transaction(number: int, producer: int = 0) -> tuple[bytes, bytes]:
    """Key (the account) and value (a JSON object) of a producer's transaction `number`.

    >>> transaction(1) == transaction(1), transaction(2, 7)[1][:21]
    (True, b'{"id":2,"producer":7,')
    """
    digest = blake2b(b"%d %d" % (producer, number), key=SEED, digest_size=24).digest()
    account = int.from_bytes(digest[:4], "big") % ACCOUNTS
    amount_cents = int.from_bytes(digest[4:7], "big")
    key = b"account-%04d" % account
    value = b'{"id":%d,"producer":%d,"account":"account-%04d","amount_cents":%d,"memo":"%s"}' % (
        number,
        producer,
        account,
        amount_cents,
        digest[8:].hex().encode("ascii"),
    )
    return key, value


def origin(value: bytes) -> tuple[int, int]:
    """The producer of a transaction, and its number there.

    >>> origin(transaction(2, 7)[1])
    (7, 2)
    """
    number, producer, _ = value.split(b",", 2)
    return int(producer.removeprefix(b'"producer":')), int(number.removeprefix(b'{"id":'))
