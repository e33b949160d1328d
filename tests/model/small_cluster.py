"""A cluster's file, as small as it can be, for tests to add to."""

from pathlib import Path

SMALL = """\
[[orderer]]
server = 1
address = "127.0.0.1:7600"
[[shard]]
shard = 0
replicas = ["127.0.0.1:7603", "127.0.0.1:7604"]
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "cluster.toml"
    path.write_text(text, encoding="utf-8")
    return path
