"""Every fault by its name, and which of them this machine allows."""

from collections.abc import Sequence

from ithaca.engines import registry
from ithaca.model.config.toml_lines import did_you_mean
from ithaca.model.engine import DEFAULT_ENGINE, EngineName
from ithaca.model.errors import InvalidInput
from ithaca.torture.faults.disk import Full, Power, SyncError
from ithaca.torture.faults.injectors import Injector
from ithaca.torture.faults.link import Loss, OneWay, Partition, Reset, Slow
from ithaca.torture.faults.process import Client, Clock, Consumer, Kill, KillAll, LongPause, Pause, Rolling
from ithaca.torture.faults.view import AddShard, Finalize, Replace

INJECTORS: dict[str, type[Injector]] = {
    injector.fault.name: injector
    for injector in (
        Kill,
        KillAll,
        Pause,
        LongPause,
        Rolling,
        Client,
        Consumer,
        Clock,
        Partition,
        OneWay,
        Slow,
        Loss,
        Reset,
        SyncError,
        Full,
        Power,
        AddShard,
        Finalize,
        Replace,
    )
}
ALL = "all"


def availability() -> dict[str, str | None]:
    """Of each fault, why this machine does not allow it; None when it does."""
    return {name: injector.unavailable() for name, injector in INJECTORS.items()}


def chosen(names: Sequence[str], engine: EngineName = DEFAULT_ENGINE, *, tls: bool = False) -> list[str]:
    """The faults that are asked for; `InvalidInput` when one is not known, not allowed here, or not the engine's."""
    features = registry.engine(engine).features
    foreign = {name for name, each in INJECTORS.items() if each.needs is not None and each.needs not in features}
    hidden = {name for name, each in INJECTORS.items() if tls and each.by_party}
    if list(names) == [ALL]:
        allowed = [name for name, reason in availability().items() if reason is None]
        return [name for name in allowed if name not in foreign | hidden]
    for name in names:
        if name not in INJECTORS:
            known = ", ".join((*INJECTORS, ALL))
            raise InvalidInput(f"there is no fault {name!r}{did_you_mean(name, INJECTORS)}: use {known}")
        if name in foreign:
            raise InvalidInput(f"the fault {name} does not befall a cluster of the engine {engine}")
        if name in hidden:
            raise InvalidInput(
                f"the fault {name} needs to know who has dialled, which TLS hides: leave one of them out"
            )
        reason = INJECTORS[name].unavailable()
        if reason is not None:
            raise InvalidInput(f"the fault {name} is not possible here: {reason}")
    if not names:
        raise InvalidInput(f"no fault is named: use {', '.join((*INJECTORS, ALL))}")
    return list(dict.fromkeys(names))
