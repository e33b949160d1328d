"""The engines by their names. One is loaded when it is first asked for."""

from importlib import import_module

from ithaca.engines.engine import Engine
from ithaca.model.config.cluster import ClusterFile
from ithaca.model.config.toml_lines import did_you_mean
from ithaca.model.engine import FEATURES, EngineName
from ithaca.model.errors import ConfigError, InvalidInput
from ithaca.model.server_place import ServerPlace
from ithaca.server.directory import claim
from ithaca.server.options import ServerOptions
from ithaca.server.process import Server

_known: dict[EngineName, Engine | str] = {
    "scalog": "ithaca.engines.scalog.engine",
    "belfast": "ithaca.engines.belfast.engine",
    "raft": "ithaca.engines.raft.engine",
    "corfu": "ithaca.engines.corfu.engine",
}
"""Each is an engine, or the name of the module that has it as `ENGINE`."""
_loaded: dict[EngineName, Engine] = {}


def register(name: EngineName, engine: Engine | str) -> None:
    """Have an engine found by this name from now on: itself, or by the name of a module that has it as `ENGINE`.

    Every process that runs its servers or connects to them has to do it. The same again is the same.
    """
    if _known.setdefault(name, engine) != engine:
        raise InvalidInput(f"there is an engine {name!r} already: give yours another name")


def names() -> tuple[EngineName, ...]:
    """Of the engines that there are."""
    return tuple(_known)


def engine(name: EngineName) -> Engine:
    """The engine of this name; `ConfigError` when there is none.

    >>> engine("scalog").name
    'scalog'
    """
    source = _known.get(name)
    if source is None:
        meant = did_you_mean(name, _known)
        raise ConfigError(f"the engine {name!r} is not in this version{meant}: use one of {', '.join(_known)}")
    if name not in _loaded:
        _loaded[name] = import_module(source).ENGINE if isinstance(source, str) else source
        FEATURES[name] = _loaded[name].features
    return _loaded[name]


def check(file: ClusterFile) -> None:
    """Raise `ConfigError` for a file with which its engine starts no server."""
    engine(file.engine).check(file)


def make_server(file: ClusterFile, place: ServerPlace, directory: str, options: ServerOptions | None = None) -> Server:
    """The server at this place of the cluster, not started, of the engine that the file names.

    `ConfigError` when the directory, unless it is empty or the server keeps no data, belongs to another engine.
    """
    found, options = engine(file.engine), options or ServerOptions()
    check(file)
    if directory:
        claim(options.disk, directory, found.name)
    return found.make_server(file, place, directory, options)
