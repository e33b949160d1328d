"""Carts and orders on a store: stock is taken, an order written and its cart emptied in one step, or not at all.

Web servers place orders at the same time, each with a store of its own on the shop's log. Which of two gets the last
piece is decided by the order of the log (`test_and_put`), and nobody locks anything.
"""

import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import ithaca
from ithaca.apps.demo_cast import DemoFailed
from ithaca.apps.marketplace.activity import Activity
from ithaca.objects import Store

STOCK: Final = 3
"""Pieces of each product, few enough that some orders come too late."""
ORDERS_MAX: Final = 100
"""Orders of each web server: each waits for the log."""
NAME: Final = "shop"


class Order(NamedTuple):
    """What a visitor buys together."""

    number: int
    visitor: str
    products: tuple[int, ...]


class Sold(NamedTuple):
    """What came of the orders."""

    placed: int
    refused: int
    pieces: int


def orders_of(activities: Iterable[Activity]) -> list[Order]:
    """The orders among activities, in their order."""
    products: dict[tuple[int, str], set[int]] = {}
    for each in activities:
        if each.action == "buy":
            products.setdefault((each.order_id, each.visitor), set()).add(each.product)
    return [Order(number, visitor, tuple(sorted(bought))) for (number, visitor), bought in products.items()]


def place(store: Store, order: Order) -> bool:
    """Take the stock and write the order, once; False when a product is sold out."""
    cart, key = b"cart/%s/%d" % (order.visitor.encode(), order.number), b"order/%d" % order.number
    content = _text(order.products)
    store.put(cart, content)
    stocks = [_stock_key(product) for product in order.products]
    while True:
        seen = store.get_many([*stocks, key], at_least=0)  # what is known here: whether it still holds is tested
        if seen[key] is not None:
            return True
        left = {stock: int(seen[stock] or b"0") for stock in stocks}
        if min(left.values()) == 0:  # stock only falls, so none left is final
            store.delete(cart)
            return False
        expected = {stock: seen[stock] for stock in stocks} | {key: None, cart: content}
        taken = {stock: b"%d" % (pieces - 1) for stock, pieces in left.items()}
        if store.test_and_put(expected, {**taken, key: content, cart: None}):
            return True


def sell(bootstrap: str, orders: Sequence[Sequence[Order]], products: Iterable[int]) -> Sold:
    """Have a web server for each list place its orders, all at once; `DemoFailed` when the books do not balance."""
    placed: list[list[bool]] = [[] for _ in orders]
    with ithaca.connect(bootstrap) as log, Store(log, NAME) as shop:
        shop.put_many({_stock_key(product): b"%d" % STOCK for product in products})

        def serve(number: int) -> None:
            with ithaca.connect(bootstrap) as own, Store(own, NAME) as store:
                placed[number] += [place(store, order) for order in orders[number]]

        servers = [threading.Thread(target=serve, args=(number,)) for number in range(len(orders))]
        for server in servers:
            server.start()
        for server in servers:
            server.join()
        return _balanced(shop, orders, placed)


def _balanced(shop: Store, orders: Sequence[Sequence[Order]], placed: Sequence[Sequence[bool]]) -> Sold:
    """Every piece is in stock or in an order, and no order was refused while there was all it asked for."""
    if [len(each) for each in placed] != [len(each) for each in orders]:
        raise DemoFailed("a web server stopped before it had placed its orders")
    outcomes = [
        (order, done) for own, dones in zip(orders, placed, strict=True) for order, done in zip(own, dones, strict=True)
    ]
    sold = Counter(product for order, done in outcomes if done for product in order.products)
    left = {int(key.removeprefix(b"stock/")): int(value) for key, value in shop.scan(b"stock/")}
    for product, pieces in left.items():
        if pieces < 0 or pieces + sold[product] != STOCK:
            raise DemoFailed(f"product {product}: {pieces} left and {sold[product]} sold, of {STOCK}")
    for order, done in outcomes:
        written = shop.get(b"order/%d" % order.number, at_least=0)
        if written != (_text(order.products) if done else None):
            raise DemoFailed(f"order {order.number} is {written!r}, and its visitor was told {done}")
        if not done and min(left[product] for product in order.products) > 0:
            raise DemoFailed(f"order {order.number} was refused, and all of it is in stock")
    if shop.scan(b"cart/"):
        raise DemoFailed("a cart is left behind an order")
    done_count = sum(done for _, done in outcomes)
    return Sold(done_count, len(outcomes) - done_count, sum(sold.values()))


def _stock_key(product: int) -> bytes:
    return b"stock/%d" % product


def _text(products: tuple[int, ...]) -> bytes:
    return " ".join(map(str, products)).encode()
