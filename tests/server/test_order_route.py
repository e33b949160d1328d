"""The way to the order: orderers in turn, redirects, aggregators that are assigned, suspected and forgiven."""

from ithaca.engines.scalog.server.route import Route
from ithaca.model.limits import RECONNECT_PAUSE_S_MAX, RECONNECT_PAUSE_S_MIN, SUSPECT_S
from ithaca.model.view import Address, Orderers

ONE, TWO, THREE, FOUR = (Address("orderer", port) for port in (1, 2, 3, 4))
NEAR, FAR = Address("aggregator", 1), Address("aggregator", 2)


def route() -> Route:
    return Route([ONE, TWO, THREE])


def assigned(to: Address = NEAR) -> Route:
    """On the way to an aggregator that the first orderer has assigned."""
    way = route()
    way.next()
    way.assigned(to)
    way.ended(0.0, had_joined=False)
    assert way.next() == to
    return way


def test_orderers_take_turns_and_pauses_grow() -> None:
    way, pauses = route(), []
    for expected in (ONE, TWO, THREE, ONE, TWO, THREE, ONE):
        assert way.next() == expected
        pauses.append(way.ended(0.0, had_joined=False))
    assert pauses == sorted(pauses)
    assert pauses[0] == 2 * RECONNECT_PAUSE_S_MIN
    assert pauses[-1] == RECONNECT_PAUSE_S_MAX


def test_a_redirect_is_followed_at_once_but_not_in_a_circle() -> None:
    way = route()
    way.next()
    way.redirected(THREE)
    assert way.ended(0.0, had_joined=False) == 0
    assert way.next() == THREE
    way.redirected(ONE)
    assert way.ended(0.0, had_joined=False) == RECONNECT_PAUSE_S_MIN
    assert way.next() == ONE


def test_who_joins_again_goes_back_to_where_it_was_joined() -> None:
    way = route()
    way.next()
    assert way.ended(0.0, had_joined=False) > 0
    assert way.next() == TWO
    way.again()
    assert way.ended(0.0, had_joined=True) == 0
    assert way.next() == TWO
    way.again()
    assert way.ended(0.0, had_joined=True) == RECONNECT_PAUSE_S_MIN
    assert way.next() == TWO
    assert way.ended(0.0, had_joined=True) > 0
    assert way.next() != TWO


def test_who_joins_again_at_an_aggregator_still_knows_who_assigned_it() -> None:
    way = assigned()
    way.again()
    way.ended(0.0, had_joined=True)
    assert way.next() == NEAR
    way.ended(5.0, had_joined=False)
    assert way.suspects(5.0) == (NEAR,)
    assert way.next() == ONE


def test_a_redirect_to_nobody_goes_on_with_the_next() -> None:
    way = route()
    way.next()
    way.redirected(None)
    assert way.ended(0.0, had_joined=False) > 0
    assert way.next() == TWO


def test_an_aggregator_that_does_not_serve_is_suspected_and_the_leader_asked_again() -> None:
    way = assigned()
    way.ended(5.0, had_joined=False)
    assert way.suspects(5.0) == (NEAR,)
    assert way.next() == ONE
    way.assigned(FAR)
    way.ended(5.0, had_joined=False)
    assert way.next() == FAR
    way.ended(6.0, had_joined=False, was_refused=True)
    assert way.suspects(6.0) == (NEAR, FAR)
    assert way.suspects(5.0 + SUSPECT_S) == (FAR,)
    assert way.suspects(6.0 + SUSPECT_S) == ()


def test_an_aggregator_that_ends_is_not_suspected_but_one_that_is_silent_is() -> None:
    way = assigned()
    way.ended(0.0, had_joined=True)
    assert way.suspects(0.0) == ()
    assert way.next() == TWO, "whoever leads now"
    way = assigned()
    way.ended(0.0, had_joined=True, was_silent=True)
    assert way.suspects(0.0) == (NEAR,)
    assert way.next() == ONE


def test_who_is_sent_from_one_aggregator_to_another_comes_back_to_the_leader() -> None:
    way = assigned()
    way.assigned(FAR)
    way.ended(0.0, had_joined=True)
    assert way.suspects(0.0) == ()
    assert way.next() == FAR
    way.ended(0.0, had_joined=False)
    assert way.next() == ONE


def test_an_orderer_is_never_suspected() -> None:
    way = route()
    way.next()
    way.ended(0.0, had_joined=True, was_silent=True)
    assert way.suspects(0.0) == ()


def test_orderers_that_are_there_now_are_asked_before_those_of_the_file() -> None:
    way = route()
    way.learn(Orderers(7, (FOUR, TWO)))
    way.learn(Orderers(6, (ONE,)))
    way.learn(Orderers(8, ()))
    assert way.newest == Orderers(7, (FOUR, TWO)), "an older list, and one that says nothing, are nothing to go by"
    asked = []
    for _ in range(6):
        asked.append(way.next())
        way.ended(0.0, had_joined=False)
    assert asked == [FOUR, TWO, ONE, THREE, FOUR, TWO]


def test_who_is_learned_of_while_others_are_asked_comes_next() -> None:
    way = route()
    way.next()
    way.learn(Orderers(7, (FOUR,)))
    way.ended(0.0, had_joined=False)
    assert way.next() == FOUR


def test_the_leader_that_was_lost_is_asked_last() -> None:
    way = route()
    way.learn(Orderers(7, (ONE, FOUR)))
    way.next()
    way.ended(0.0, had_joined=True)
    asked = []
    for _ in range(4):
        asked.append(way.next())
        way.ended(0.0, had_joined=False)
    assert asked == [FOUR, TWO, THREE, ONE]
