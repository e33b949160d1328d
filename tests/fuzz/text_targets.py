"""What people and programs write as text: configuration, addresses, the servers' words about themselves."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from tests.fuzz.target import Target

from ithaca.client.bootstrap import parse_bootstrap
from ithaca.cluster.state import NAME as STATE
from ithaca.cluster.state import ChildState, SupervisorState, load_state, save_state
from ithaca.model.addresses import parse_address
from ithaca.model.config.cluster import ClusterFile, load_cluster
from ithaca.model.config.log import PREFIX, Settings, load_settings
from ithaca.model.config.text import dump_cluster
from ithaca.model.errors import ConfigError, Corrupt, InvalidInput
from ithaca.runtime.logs import Line, render


def _text(data: bytes) -> str:
    """Text as arguments and the environment bring it: what is no UTF-8 comes as halves of surrogate pairs."""
    return data.decode(errors="surrogateescape")


@contextmanager
def _file(data: bytes, name: str = "file.toml") -> Iterator[Path]:
    """A file with these bytes, alone in a directory, as long as it is looked at."""
    with tempfile.TemporaryDirectory(prefix="ithaca-fuzz-") as place:
        path = Path(place) / name
        path.write_bytes(data)
        yield path


def _cluster(data: bytes) -> ClusterFile:
    with _file(data) as path:
        return load_cluster(path)


def _settings(data: bytes) -> Settings:
    with _file(data) as path:
        return load_settings(file=path, environ={})


def _environment(data: bytes) -> Settings:
    """Lines of `name=value`, as variables of the environment."""
    lines = (line.partition("=") for line in _text(data).split("\n"))
    return load_settings(environ={PREFIX + name: value for name, _, value in lines if name != "CONFIG"})


def _set(settings: Settings) -> bytes:
    """The settings as variables of the environment."""
    said = ((name.upper(), getattr(settings, name)) for name in Settings.__dataclass_fields__)
    return "\n".join(f"{name}={value}" for name, value in said if value is not None).encode()


def _supervisor_state(data: bytes) -> SupervisorState:
    with _file(data, STATE) as path:
        found = load_state(path.parent)
    assert found is not None
    return found


def _saved(state: SupervisorState) -> bytes:
    with _file(b"", STATE) as path:
        save_state(path.parent, state)
        return path.read_bytes()


def _rendered(data: bytes) -> str:
    """A line of a log, as a reader of the file gets it."""
    text = render(data.decode(errors="replace"))
    text.encode()
    return text


_CLUSTERS = (
    b"""[cluster]
name = "local"
durability = "fsync"
order_interval_us = 0
segment_bytes = 268435456

[[orderer]]
server = 1
address = "127.0.0.1:7600"

[[shard]]
shard = 0
masking = false
replicas = ["127.0.0.1:7603", "[::1]:7604"]
""",
    b"""orderer = [{server = 3, address = 'a:1'}, {server = 2, address = 'b:1'}, {server = 1, address = 'c:1'}]
shard = [
  {shard = 7, masking = true, replicas = ["d:1", "e:1",  # a comment
    "f:1"]},
]
cluster.name = \"\"\"\\u00e9\"\"\"
""",
)
_ENDLESS = (b"a = 0x" + b"f" * 8000, b"a = " + b"9" * 5000, b"a = " + b"[" * 5000, b"a = " + b"{a = " * 2000)
"""Numbers and nesting that the parser of TOML, or Python itself, gives up on."""
_SETTINGS = (
    b"",
    b"""[log]
durability = "os"
compression = "zstd"
retention_age_s = 604800.5
retention_bytes = 10_737_418_240
segment_bytes = 0x10000000
""",
)
_ENVIRONMENT = (
    b"DURABILITY=os\nCOMPRESSION=lz4",
    b"RETENTION_AGE_S= 1e6 \nRETENTION_BYTES=1000\nSEGMENT_BYTES=67108864\nOTHER=x",
)
_ADDRESSES = (b"127.0.0.1:7600", b"[::1]:7600", b"log.example.org:65535", b"[fe80::1%eth0]:1")
_STATES = (
    SupervisorState(7, 9, []),
    SupervisorState(7, 9, [ChildState("orderer-1", pid=8), ChildState("replica-0-1", "fenced", None, 2, 5, 3)]),
)
_LINES = (
    msgspec.json.encode(Line("2026-01-31T12:00:00.0Z", "info", "replica", "0/1", "ithaca", "joined", {"lane": 3}, "")),
    b'{"time":"t","level":"error","role":"r","name":"n","logger":"l","event":"\\u001b[0m","fields":{"a":[{"b":null}]},'
    b'"trace":"one\\ntwo"}',
    b"no JSON at all\x1b[0m",
)

TARGETS: tuple[Target[Any], ...] = (
    Target(
        "cluster-file",
        _cluster,
        (ConfigError,),
        _CLUSTERS,
        lambda found: dump_cluster(found).encode(),
        regressions=(*_ENDLESS, _CLUSTERS[0].replace(b"268435456", _ENDLESS[0][4:])),
    ),
    Target(
        "settings-file",
        _settings,
        (ConfigError,),
        _SETTINGS,
        regressions=(*_ENDLESS, *(b"[log]\nsegment_bytes = " + each[4:] for each in _ENDLESS)),
    ),
    Target("settings-environment", _environment, (ConfigError,), _ENVIRONMENT, _set),
    Target(
        "address",
        lambda data: parse_address(_text(data)),
        (InvalidInput,),
        _ADDRESSES,
        lambda address: str(address).encode(errors="surrogateescape"),
    ),
    Target(
        "bootstrap",
        lambda data: parse_bootstrap(_text(data)),
        (InvalidInput,),
        (*_ADDRESSES, b"a:1, b:2,[::1]:3 "),
        lambda addresses: ",".join(map(str, addresses)).encode(errors="surrogateescape"),
    ),
    Target(
        "supervisor-state",
        _supervisor_state,
        (Corrupt,),
        tuple(map(_saved, _STATES)),
        _saved,
        regressions=(b"", b"\xff", b"{}"),
    ),
    Target("log-line", _rendered, (), _LINES, regressions=(_LINES[1].replace(b"[{", b"[" * 5000),)),
)
