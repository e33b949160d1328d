"""The addresses with which a client begins."""

from collections.abc import Sequence

from ithaca.model.addresses import parse_address
from ithaca.model.errors import InvalidInput
from ithaca.model.view import Address


def parse_bootstrap(bootstrap: str | Sequence[str]) -> tuple[Address, ...]:
    """The addresses to begin with: one text, with commas between several, or a sequence of them.

    >>> [str(address) for address in parse_bootstrap("127.0.0.1:7600, [::1]:7601")]
    ['127.0.0.1:7600', '[::1]:7601']
    """
    if not isinstance(bootstrap, str | Sequence):
        raise InvalidInput(f'bootstrap is {bootstrap!r}: name the address of an orderer, such as "127.0.0.1:7600"')
    texts = bootstrap.split(",") if isinstance(bootstrap, str) else list(bootstrap)
    if not texts:
        raise InvalidInput('bootstrap is empty: name the address of an orderer, such as "127.0.0.1:7600"')
    for text in texts:
        if not isinstance(text, str):
            raise InvalidInput(f'bootstrap has {text!r}, which is not an address such as "127.0.0.1:7600"')
    return tuple(dict.fromkeys(parse_address(text.strip()) for text in texts))
