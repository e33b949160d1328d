"""The rules in plain Python, on running statistics of each user.

With n payments so far, their sum s and the sum of their squares q, an amount x is k deviations above the mean when
(n·x − s)² > k²·(n·q − s²) and n·x > s: whole numbers only, so that any other computation must agree exactly.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from ithaca.apps.fraud.payments import Payment

PAYMENTS_MIN: Final = 10
"""A user with fewer payments is not judged by their amounts."""
DEVIATIONS: Final = 4
TRAVEL_S: Final = 3600
"""Nobody pays in two countries within so many seconds."""


Hourly = tuple[int, int, int, int]
"""Hour, payments, users, cents."""


class UserState(NamedTuple):
    """What is known of a user: running statistics, and the last payment's place and time."""

    user: str
    payments: int = 0
    total: int = 0
    squares: int = 0
    country: str = ""
    at_s: int = 0

    @classmethod
    def of(cls, row: Sequence[Any]) -> "UserState":
        """From a row of a table, where the squares may be a text or a decimal."""
        user, payments, total, squares, country, at_s = row
        return cls(user, payments, total, int(squares), country, at_s)

    def after(self, payment: Payment) -> "UserState":
        """With one more payment."""
        amount = payment.amount_cents
        return UserState(
            self.user,
            self.payments + 1,
            self.total + amount,
            self.squares + amount * amount,
            payment.country,
            payment.at_s,
        )


class Alert(NamedTuple):
    """A payment to look at, and why: `amount`, `travel`, or both."""

    position: int
    user: str
    amount_cents: int
    country: str
    reason: str


def reason(payment: Payment, state: UserState) -> str:
    """Why a payment is suspicious by what came before it; empty when it is not.

    >>> known = UserState("user-1", 10, 1000, 10 * 100**2, "GR", 0)
    >>> [reason(Payment(0, "user-1", 60, cents, country, 1), known) for cents, country in [(100, "GR"), (101, "IT")]]
    ['', 'amount, travel']
    """
    above = state.payments * payment.amount_cents - state.total
    spread = state.payments * state.squares - state.total * state.total
    is_much = state.payments >= PAYMENTS_MIN and above > 0 and above * above > DEVIATIONS * DEVIATIONS * spread
    is_far = state.payments > 0 and payment.country != state.country and abs(payment.at_s - state.at_s) < TRAVEL_S
    return ", ".join(name for name, holds in (("amount", is_much), ("travel", is_far)) if holds)


def judge(payments: Iterable[tuple[int, Payment]], states: dict[str, UserState]) -> list[Alert]:
    """The alerts of payments with their positions, in the order of the log; `states` is brought up to date."""
    alerts = []
    for position, payment in payments:
        state = states.get(payment.user) or UserState(payment.user)
        if why := reason(payment, state):
            alerts.append(Alert(position, payment.user, payment.amount_cents, payment.country, why))
        states[payment.user] = state.after(payment)
    return alerts


def hourly(payments: Iterable[Payment]) -> list[Hourly]:
    """What finalized shards are asked: payments, users and turnover by hour of the day."""
    hours: dict[int, list[Payment]] = defaultdict(list)
    for payment in payments:
        hours[payment.at_s // 3600].append(payment)
    return [
        (hour, len(held), len({each.user for each in held}), sum(each.amount_cents for each in held))
        for hour, held in sorted(hours.items())
    ]
