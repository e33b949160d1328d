"""Addresses as people write them."""

import ipaddress
import re

from ithaca.model.errors import InvalidInput
from ithaca.model.view import Address


def parse_address(text: str) -> Address:
    """An address of the form host:port, IPv6 in brackets; `InvalidInput` says what is wrong with it.

    >>> parse_address("[::1]:7600")
    Address(host='::1', port=7600)
    """
    wanted = 'write it as "host:port", IPv6 as "[::1]:7600"'
    if not isinstance(text, str):
        raise InvalidInput(f"address is {text!r}: {wanted}")
    found = re.fullmatch(r"(?:\[(?P<six>[^\[\]\s]*)\]|(?P<name>[^\[\]\s:/@]*)):(?P<port>[0-9]{1,5})", text)
    if found is None:
        raise InvalidInput(f"{text!r} is not an address: {wanted}")
    host = found["name"] if found["six"] is None else found["six"]
    if not host or (found["six"] is not None and not _is_ipv6(host)):
        raise InvalidInput(f'{text!r} names no host: write the address as "host:port", IPv6 as "[::1]:7600"')
    if not 1 <= int(found["port"]) <= 65535:
        raise InvalidInput(f"{text!r} has port {found['port']}: use one from 1 to 65535")
    return Address(host, int(found["port"]))


def is_numeric(host: str) -> bool:
    """Whether a host is an address, and no name that has to be looked up.

    >>> is_numeric("::1"), is_numeric("localhost")
    (True, False)
    """
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_loopback(address: Address) -> bool:
    """Whether only this machine can reach the address.

    >>> is_loopback(Address("localhost", 7600)), is_loopback(Address("10.0.0.7", 7600))
    (True, False)
    """
    try:
        return ipaddress.ip_address(address.host).is_loopback
    except ValueError:
        return address.host == "localhost"


def _is_ipv6(host: str) -> bool:
    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        return False
    return True
