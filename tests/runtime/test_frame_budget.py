"""The budget of unfinished frames, against every order of arrivals and ends."""

from hypothesis import given, settings
from hypothesis import strategies as st

from ithaca.model.errors import Overloaded
from ithaca.runtime.frame_budget import FrameBudget


class Fake:
    """A connection that is read from, or not."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_reading = True

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True


steps = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 60), st.integers(0, 9)), max_size=60)


@settings(max_examples=200)
@given(steps, st.integers(0, 100), st.integers(0, 40), st.integers(0, 60))
def test_it_is_never_exceeded_and_nobody_waits_for_ever(
    steps: list[tuple[int, int, int]], bytes_max: int, reserved: int, waiting_max: int
) -> None:
    """Connections 0 to 2 are clients, 3 to 5 servers; a length of 0 completes a frame, and one above 50 ends it all."""
    budget = FrameBudget(bytes_max, min(reserved, bytes_max), waiting_max)
    connections = [Fake(str(number)) for number in range(6)]
    lengths = [0] * 6
    for number, length, received in steps:
        connection = connections[number]
        if length > 50:
            budget.left(connection)
            connections[number], lengths[number] = Fake(str(number)), 0
        elif connection.is_reading:
            try:
                budget.receives(connection, length, min(received, length), is_server=number > 2)
                lengths[number] = length
            except Overloaded:
                budget.left(connection)
                connections[number], lengths[number] = Fake(str(number)), 0
        let_in = [size if each.is_reading else 0 for each, size in zip(connections, lengths, strict=True)]
        clients, servers = let_in[:3], let_in[3:]
        assert budget.bytes == sum(let_in)
        assert sum(clients) <= bytes_max - min(reserved, bytes_max) or sum(map(bool, clients)) == 1
        assert sum(let_in) <= bytes_max or sum(map(bool, servers)) <= 1 or sum(map(bool, clients)) <= 1
        assert budget.waiting == sum(not each.is_reading for each in connections)
    for number, connection in enumerate(connections):
        if connection.is_reading:
            budget.receives(connection, 0, 0, is_server=number > 2)
    while waiting := [each for each in connections if lengths[connections.index(each)] and each.is_reading]:
        for each in waiting:  # whoever was let in completes its frame, and somebody follows
            budget.receives(each, 0, 0, is_server=connections.index(each) > 2)
            lengths[connections.index(each)] = 0
    assert (budget.bytes, budget.waiting) == (0, 0)


def test_servers_are_let_in_before_clients_that_came_first() -> None:
    budget = FrameBudget(10, 4, 100)
    holder, client, server = Fake("holder"), Fake("client"), Fake("server")
    large = Fake("a server's")
    budget.receives(holder, 6, 1, is_server=False)
    budget.receives(large, 4, 1, is_server=True)
    budget.receives(client, 6, 1, is_server=False)
    budget.receives(server, 5, 1, is_server=True)
    assert (client.is_reading, server.is_reading) == (False, False)
    budget.receives(holder, 0, 0, is_server=False)
    assert (client.is_reading, server.is_reading) == (True, True)
    budget.left(large)
    budget.left(server)
    assert budget.bytes == 6


def test_clients_cannot_take_what_is_left_to_servers() -> None:
    budget = FrameBudget(10, 4, 100)
    first, second, server = Fake("first"), Fake("second"), Fake("server")
    budget.receives(first, 6, 1, is_server=False)
    budget.receives(second, 1, 1, is_server=False)
    budget.receives(server, 4, 1, is_server=True)
    assert (second.is_reading, server.is_reading) == (False, True)
