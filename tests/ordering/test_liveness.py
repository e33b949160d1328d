"""Who is silent: by the time in which the leader was running, and only those that it watches."""

from ithaca.engines.scalog.ordering.liveness import Liveness

ONE, OTHER = (0, 0), (0, 1)


def looking(times: int, liveness: Liveness, elapsed_us: int = 100) -> list[tuple[int, int]]:
    for _ in range(times):
        liveness.look(elapsed_us, {ONE, OTHER})
    return liveness.failed()


def test_silence_counts_from_the_last_sign_of_life() -> None:
    liveness = Liveness(timeout_us=300, first_us=0, look_us=100)
    assert looking(2, liveness) == []
    liveness.heard(ONE)
    assert looking(1, liveness) == [OTHER]
    assert looking(2, liveness) == [ONE, OTHER]
    liveness.heard(OTHER)
    assert liveness.failed() == [ONE]


def test_several_that_are_heard_of_together_live() -> None:
    together, apart = (Liveness(timeout_us=300, first_us=1000, look_us=100) for _ in range(2))
    together.heard_all(each for each in (ONE, OTHER, ONE))
    apart.heard(ONE)
    apart.heard(OTHER)
    for times in (1, 1, 1):
        assert looking(times, together) == looking(times, apart)
        assert [together.is_alive(each) for each in (ONE, OTHER)] == [apart.is_alive(each) for each in (ONE, OTHER)]
    assert together.failed() == [ONE, OTHER]


def test_a_leader_that_was_paused_counts_no_more_than_it_meant_to_wait() -> None:
    liveness = Liveness(timeout_us=300, first_us=0, look_us=100)
    liveness.heard(ONE)
    liveness.heard(OTHER)
    assert looking(1, liveness, elapsed_us=1_000_000) == []
    liveness.heard(ONE)  # what was sent meanwhile is read now
    assert looking(2, liveness) == [OTHER]


def test_what_was_never_heard_of_gets_longer() -> None:
    liveness = Liveness(timeout_us=300, first_us=1000, look_us=100)
    liveness.heard(ONE)
    assert looking(3, liveness) == [ONE]
    assert looking(6, liveness) == [ONE]
    assert looking(1, liveness) == [ONE, OTHER]


def test_who_is_not_watched_any_more_is_forgotten() -> None:
    liveness = Liveness(timeout_us=300, first_us=0, look_us=100)
    assert looking(3, liveness) == [ONE, OTHER]
    liveness.look(100, {OTHER})
    assert liveness.failed() == [OTHER]
