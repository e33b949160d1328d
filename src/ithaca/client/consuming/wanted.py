"""What `Log.consumer` was asked for, checked. Pure."""

from typing import NamedTuple

from ithaca.client.consuming.committing import CommitRule
from ithaca.model.arguments import flag, is_integer, optional_function
from ithaca.model.consumers import check_consumer_name
from ithaca.model.errors import InvalidInput
from ithaca.model.limits import CONSUMER_PARTS_MAX, GROUP_LEASE_S, GROUP_LEASE_S_MAX, GROUP_LEASE_S_MIN
from ithaca.model.records import KeyFilter, Start
from ithaca.model.units import Duration, seconds
from ithaca.runtime.checks import check_filter, check_start


class Grouping(NamedTuple):
    """How somebody takes part in a group."""

    parts: int
    """0: as many as it has."""
    lease_s: float


class Wanted(NamedTuple):
    """A consumer, or without `grouping` none that is shared."""

    name: str
    start: Start
    where: KeyFilter | None
    rule: CommitRule
    grouping: Grouping | None

    @classmethod
    def checked(
        cls,
        name: str,
        start: Start,
        where: KeyFilter | None,
        rule: CommitRule,
        *,
        group: bool,
        parts: int | None,
        lease: Duration | None,
        on_assigned: object,
        on_revoked: object,
    ) -> "Wanted":
        """`InvalidInput` for what cannot be asked for."""
        is_told = (
            optional_function(on_assigned, "on_assigned") is not None
            or optional_function(on_revoked, "on_revoked") is not None
        )
        check_consumer_name(name)
        check_start(start)
        check_filter(where)
        if not flag(group, "group"):
            if parts is not None or lease is not None or is_told:
                raise InvalidInput(
                    "parts, lease, on_assigned and on_revoked are of groups: say group=True, or leave them out"
                )
            return cls(name, start, where, rule, None)
        if parts is not None and not (is_integer(parts) and 1 <= parts <= CONSUMER_PARTS_MAX):
            raise InvalidInput(f"a group has 1 to {CONSUMER_PARTS_MAX} parts, not {parts!r}")
        lease_s = GROUP_LEASE_S if lease is None else seconds(lease, "lease")
        if not GROUP_LEASE_S_MIN <= lease_s <= GROUP_LEASE_S_MAX:
            raise InvalidInput(
                f"lease is {lease!r}: use {GROUP_LEASE_S_MIN:.0f} second to {GROUP_LEASE_S_MAX / 3600:.0f} hour"
            )
        return cls(name, start, where, rule, Grouping(parts or 0, lease_s))
