"""Settings: which source wins, and that a wrong one is named by file and line, or by variable."""

from pathlib import Path
from typing import Any

import pytest

from ithaca.model.config.log import Settings, load_settings
from ithaca.model.errors import ConfigError, InvalidInput, UnknownCompression
from ithaca.model.limits import GIB, RETENTION_AGE_S_MAX, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN

FULL = """\
# what the log of this machine is like
[log]
durability = "os"
compression = "zstd"
retention_age_s = 3600
retention_bytes = 1_000_000
segment_bytes = 131072
consumer_idle_s = "90d"
"""


def write(tmp_path: Path, text: str) -> str:
    path = tmp_path / "ithaca.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def load_error(tmp_path: Path, text: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load_settings(file=write(tmp_path, text), environ={})
    assert caught.value.file == str(tmp_path / "ithaca.toml")
    return caught.value


def test_defaults() -> None:
    assert load_settings(environ={}) == Settings("fsync", "none", None, None, SEGMENT_BYTES_MAX)


def test_a_file_sets_everything(tmp_path: Path) -> None:
    expected = Settings("os", "zstd", 3600, 1_000_000, 131072, 90 * 86_400)
    path = write(tmp_path, FULL)
    assert load_settings(file=path, environ={}) == expected
    assert load_settings(file=Path(path), environ={}) == expected
    assert load_settings(environ={"ITHACA_CONFIG": path}) == expected


@pytest.mark.parametrize("text", ["", "# nothing\n", "[log]\n", "log = {}\n"])
def test_an_empty_file_sets_nothing(tmp_path: Path, text: str) -> None:
    assert load_settings(file=write(tmp_path, text), environ={}) == Settings()


def test_the_environment_sets_everything() -> None:
    environ = {
        "ITHACA_DURABILITY": "os",
        "ITHACA_COMPRESSION": " lz4 ",
        "ITHACA_RETENTION_AGE_S": "0.5",
        "ITHACA_RETENTION_BYTES": "1000",
        "ITHACA_SEGMENT_BYTES": str(SEGMENT_BYTES_MIN),
        "ITHACA_SOMETHING_ELSE": "is for somebody else",
    }
    assert load_settings(environ=environ) == Settings("os", "lz4", 0.5, 1000, SEGMENT_BYTES_MIN)


def test_argument_before_environment_before_file_before_default(tmp_path: Path) -> None:
    path = write(tmp_path, '[log]\nretention_bytes = 3\ncompression = "zstd"\ndurability = "os"\n')
    environ = {"ITHACA_RETENTION_BYTES": "2", "ITHACA_COMPRESSION": "lz4"}
    assert load_settings(file=path, environ=environ, retention_bytes=1) == Settings("os", "lz4", None, 1)


def test_the_file_of_the_argument_comes_before_the_one_of_the_environment(tmp_path: Path) -> None:
    path = write(tmp_path, '[log]\ndurability = "os"\n')
    assert load_settings(file=path, environ={"ITHACA_CONFIG": "/nowhere"}).durability == "os"


def test_what_is_empty_was_not_given(tmp_path: Path) -> None:
    path = write(tmp_path, FULL)
    environ = {"ITHACA_CONFIG": "", "ITHACA_DURABILITY": "", "ITHACA_RETENTION_BYTES": " "}
    assert load_settings(environ=environ) == Settings()
    assert load_settings(file=path, environ=environ, durability=None, retention_bytes=None).durability == "os"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (
            '[log]\n\ndurability = "sync"\n',
            3,
            r"durability is 'sync' \(did you mean fsync\?\): use one of fsync, os",
        ),
        ('[log]\ncompression = "lz5"\n', 2, r"did you mean lz4\?\): use one of none, lz4, zstd"),
        ("[log]\ncompression = 4\n", 2, "compression is 4: use one of none, lz4, zstd"),
        (
            "[log]\nsegment_bytes = 65535\n",
            2,
            "segment_bytes is 65535: use a whole number from 65536 to 1073741824",
        ),
        (f"[log]\nsegment_bytes = {GIB + 1}\n", 2, "from 65536 to 1073741824"),
        ("[log]\nsegment_bytes = 1e6\n", 2, "a whole number"),
        ('[log]\nsegment_bytes = "1 mile"\n', 2, "segment_bytes is '1 mile'"),
        ("[log]\nretention_bytes = 0\n", 2, "retention_bytes is 0: use a whole number from 1 to"),
        ("[log]\nretention_bytes = true\n", 2, "retention_bytes is True"),
        ("[log]\nretention_age_s = 0\n", 2, "retention_age_s is 0: use a number from 1e-06 to"),
        ("[log]\nretention_age_s = nan\n", 2, "retention_age_s is nan"),
        ("[log]\nretention_age_s = inf\n", 2, "retention_age_s is inf"),
        ("[log]\nconsumer_idle_s = 0\n", 2, "consumer_idle_s is 0: use a number from 1 to"),
        ("[log]\nretention_age_s = [1]\n", 2, r"retention_age_s is \[1\]"),
        (
            FULL + "retention = 7\n",
            9,
            r"retention is not known \(did you mean retention_\w+\?\): use one of durability,",
        ),
        (FULL + 'durabilty = "os"\n', 9, r"durabilty is not known \(did you mean durability\?\)"),
        (FULL + "zzz = 1\n", 9, "zzz is not known: use one of durability, compression, retention_age_s,"),
        ('# durability = 1\nlog.compression = "none"\nlog.durability = 1\n', 3, "durability is 1"),
        ('log = { compression = "none", durability = 1 }\n', 1, "durability is 1"),
        ('[log]\n"segment_bytes" = 1\n', 2, "segment_bytes is 1"),
        ("[ log ]\n  segment_bytes=1\n", 2, "segment_bytes is 1"),
        ("[log]\n[log.segment_bytes]\nx = 1\n", 2, "segment_bytes is {'x': 1}"),
        ("[log]\n[logs]\ndurability = 1\n", 2, r"logs is not known \(did you mean log\?\): .* table \[log\]"),
        ('\ndurability = "os"\n', 2, r"durability is not known: settings stand in the table \[log\]"),
        ("log = 1\n", 1, r"log is 1: make it a table, \[log\]"),
        ("[[log]]\n", 1, r"make it a table, \[log\]"),
        ("[log]\n\ndurability = fsync\n", 3, "is not TOML: Invalid value"),
        ('[log]\ndurability = "os"\ndurability = "os"\n', 3, "is not TOML"),
        ('[log]\ndurability = "os\n', 2, "is not TOML"),
        ("[log]\ndurability =", 2, "is not TOML"),
    ],
)
def test_what_is_wrong_in_a_file_is_named_by_line(tmp_path: Path, text: str, line: int, message: str) -> None:
    error = load_error(tmp_path, text)
    assert error.line == line
    assert str(error).startswith(f"{error.file}:{line}: ")
    with pytest.raises(ConfigError, match=message):
        raise error


def test_a_key_of_the_same_name_elsewhere_is_not_blamed(tmp_path: Path) -> None:
    """Unknown tables are refused first, so it takes a comment and a subtable to mislead."""
    text = "# segment_bytes = 7\n[log]\n# segment_bytes = 8\n\nsegment_bytes = 9\n"
    assert load_error(tmp_path, text).line == 5


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.toml")
    with pytest.raises(ConfigError, match="No such file") as caught:
        load_settings(environ={"ITHACA_CONFIG": missing})
    assert (caught.value.file, caught.value.line) == (missing, 0)
    with pytest.raises(ConfigError, match="directory"):
        load_settings(file=tmp_path, environ={})
    (tmp_path / "latin.toml").write_bytes("[log]\n# é\n".encode("latin-1"))
    with pytest.raises(ConfigError, match="not UTF-8"):
        load_settings(file=tmp_path / "latin.toml", environ={})


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        ("ITHACA_DURABILITY", "FSYNC", "use one of fsync, os"),
        ("ITHACA_COMPRESSION", "zstandard", r"did you mean zstd\?"),
        ("ITHACA_RETENTION_AGE_S", "a week", "retention_age_s is 'a week': use a number from"),
        ("ITHACA_RETENTION_AGE_S", str(RETENTION_AGE_S_MAX + 1), "use a number from"),
        ("ITHACA_RETENTION_AGE_S", "nan", "use a number from"),
        ("ITHACA_RETENTION_BYTES", "1.5", "retention_bytes is '1.5': use a whole number"),
        ("ITHACA_RETENTION_BYTES", "-1", "retention_bytes is -1: use a whole number"),
        ("ITHACA_SEGMENT_BYTES", "1", "from 65536 to 1073741824"),
    ],
)
def test_what_is_wrong_in_the_environment_is_named_by_variable(variable: str, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        load_settings(environ={variable: text})
    assert (caught.value.file, caught.value.line) == (variable, 0)
    assert str(caught.value).startswith(f"{variable}: ")


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("durability", "disk", InvalidInput),
        ("compression", "gzip", UnknownCompression),
        ("retention_age_s", -1, InvalidInput),
        ("retention_bytes", 1.5, InvalidInput),
        ("segment_bytes", GIB + 1, InvalidInput),
    ],
)
def test_wrong_arguments(name: str, value: Any, kind: type[InvalidInput]) -> None:
    with pytest.raises(InvalidInput, match=f"{name} is {value!r}.*: use") as caught:
        load_settings(environ={}, **{name: value})
    assert type(caught.value) is kind


def test_a_wrong_setting_is_refused_even_if_another_source_wins(tmp_path: Path) -> None:
    path = write(tmp_path, '[log]\ndurability = "never"\n')
    with pytest.raises(ConfigError):
        load_settings(file=path, environ={}, durability="fsync")


def test_the_environment_of_the_process_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ITHACA_COMPRESSION", "lz4")
    assert load_settings().compression == "lz4"
