"""Carts and orders on a store: who comes first is served, whoever sells at the same time."""

from pathlib import Path

import pytest

import ithaca
from ithaca.apps.demo_cast import DemoFailed
from ithaca.apps.marketplace.activity import PRODUCTS, SOURCES, activities
from ithaca.apps.marketplace.orders import STOCK, Order, _balanced, orders_of, place, sell
from ithaca.objects import Store
from ithaca.testing import Cluster


def test_orders_are_what_visitors_bought_together() -> None:
    made = list(activities(1, 0, 500))
    orders = orders_of(made)
    bought = {(each.order_id, each.product) for each in made if each.action == "buy"}
    assert {(order.number, product) for order in orders for product in order.products} == bought
    assert len({order.number for order in orders}) == len(orders)


def test_two_web_servers_sell_no_piece_twice() -> None:
    own = [orders_of(activities(1, source, 1500))[:25] for source in range(SOURCES)]
    few = [
        [order._replace(products=tuple({product % 8 for product in order.products})) for order in each] for each in own
    ]
    with Cluster() as cluster:
        sold = sell(cluster.bootstrap, few, range(8))
    assert sold.placed + sold.refused == sum(map(len, few))
    assert sold.refused > 0, "there was too little for all"
    assert sold.pieces <= 8 * STOCK
    assert PRODUCTS > 8


@pytest.fixture
def orders() -> list[Order]:
    return [Order(number, "ann", (1, 2)) for number in range(STOCK + 1)]


def test_an_order_is_placed_once_and_books_that_do_not_balance_are_noticed(tmp_path: Path, orders: list[Order]) -> None:
    with ithaca.open(tmp_path / "log") as log, Store(log) as shop:
        shop.put_many({b"stock/1": b"%d" % STOCK, b"stock/2": b"%d" % STOCK})
        placed = [place(shop, order) for order in orders]
        assert placed == [True] * STOCK + [False]
        assert place(shop, orders[0])
        shop.delete(b"cart/ann/0")
        assert _balanced(shop, [orders], [placed]).pieces == 2 * STOCK
        shop.delete(b"order/0")
        with pytest.raises(DemoFailed, match="told True"):
            _balanced(shop, [orders], [placed])
        shop.put(b"stock/1", b"1")
        with pytest.raises(DemoFailed, match="product 1"):
            _balanced(shop, [orders], [placed])
