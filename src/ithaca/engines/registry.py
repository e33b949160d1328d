"""The engines by their names. One is loaded when it is first asked for."""

from importlib import import_module

from ithaca.model.config.toml_lines import did_you_mean
from ithaca.model.engine import EngineName
from ithaca.model.errors import ConfigError
from ithaca.server.engine import Engine

_MODULES: dict[EngineName, str] = {"scalog": "ithaca.engines.scalog.engine"}
"""Each has `ENGINE`."""


def engine(name: EngineName) -> Engine:
    """The engine of this name.

    >>> engine("scalog").name
    'scalog'
    """
    module = _MODULES.get(name)
    if module is None:
        meant = did_you_mean(name, _MODULES)
        raise ConfigError(f"the engine {name!r} is not in this version{meant}: use one of {', '.join(_MODULES)}")
    found: Engine = import_module(module).ENGINE
    return found
