"""How much is done, and in how many rounds."""

from dataclasses import dataclass, fields, replace

ROUNDS = 100


@dataclass(frozen=True, slots=True)
class Counts:
    """What happens to the cluster, altogether or in one round."""

    parts: int = 100_000
    segments: int = 10_000
    restarts: int = 10_000
    leader_changes: int = 1_000

    def of_round(self, number: int, rounds: int) -> "Counts":
        """The share of one round, numbered from 0; the shares of all rounds are the whole.

        >>> [Counts(10, 3, 0, 1).of_round(number, 3).parts for number in range(3)]
        [3, 3, 4]
        """
        shares = {}
        for field in fields(self):
            count = getattr(self, field.name)
            shares[field.name] = count * (number + 1) // rounds - count * number // rounds
        return replace(self, **shares)
