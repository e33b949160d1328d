"""Records and results on standard output: text for people, JSON for programs, raw bytes for pipes."""

import sys
from base64 import b64encode
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ithaca.cli.template import Render, compile_template, iso_time

if TYPE_CHECKING:
    from ithaca.model.records import Record

FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        "-f",
        metavar="TEMPLATE",
        help=r"Print each record so: %p position, %k key, %v value, %t time, %T time in µs, %s size, "
        r"%S shard; \n and \t work, and no newline is added.",
    ),
]
RawOption = Annotated[bool, typer.Option("--raw", help="Print the bytes of the values and nothing else.")]

# One record must stay one line, and bytes from a log must not steer a terminal.
_ESCAPED = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))}
_ESCAPED |= {ord("\\"): "\\\\", ord("\n"): "\\n", ord("\t"): "\\t", ord("\r"): "\\r"}


def printable(data: bytes) -> str:
    r"""UTF-8 as it is, everything else as backslash escapes.

    >>> print(printable(b"caf\xc3\xa9 \xff\n"))
    café \xff\n
    """
    # Surrogates stand for undecodable bytes, so that a backslash of ours is told from one of the data.
    text = data.decode("utf-8", "surrogateescape").translate(_ESCAPED)
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def record_as_text(record: "Record") -> bytes:
    """Position, time, key (`-` when there is none) and value, separated by tabs."""
    key = "-" if record.key is None else printable(record.key)
    return f"{record.position}\t{iso_time(record.timestamp_us)}\t{key}\t{printable(record.value)}\n".encode()


def record_as_json(record: "Record") -> bytes:
    """One object on one line; bytes that are not UTF-8 become base64 under another name."""
    fields: dict[str, Any] = {
        "position": record.position,
        "timestamp_us": record.timestamp_us,
        "time": iso_time(record.timestamp_us),
        "shard": record.shard,
    }
    fields |= {"key": None} if record.key is None else json_bytes("key", record.key)
    return json_line(fields | json_bytes("value", record.value))


def json_bytes(name: str, data: bytes) -> dict[str, str]:
    """A field of a JSON object: text as it is, other bytes in base64 under a name that says so."""
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": b64encode(data).decode("ascii")}


def json_line(fields: dict[str, Any]) -> bytes:
    """A JSON object and a newline."""
    import msgspec

    return msgspec.json.encode(fields) + b"\n"


def renderer(template: str | None, as_json: bool, raw: bool) -> Render:
    """How the options ask records to be printed; at most one of them may be given."""
    if (template is not None) + as_json + raw > 1:
        raise typer.BadParameter("--format, --json and --raw exclude each other; give one of them")
    if template is not None:
        return compile_template(template)
    if as_json:
        return record_as_json
    return (lambda record: record.value) if raw else record_as_text


def emit(data: bytes) -> None:
    """Write bytes to standard output, as they are."""
    rest = memoryview(data)
    while rest:  # unbuffered (PYTHONUNBUFFERED), a write may be short
        rest = rest[sys.stdout.buffer.write(rest) :]


def emit_json(fields: dict[str, Any]) -> None:
    """Write one JSON object to standard output, on a line of its own."""
    emit(json_line(fields))


def note(text: str) -> None:
    """Say something beside the results, on standard error."""
    print(text, file=sys.stderr)


def size_text(count: float) -> str:
    """Bytes for people, in powers of 1000.

    >>> size_text(1_234_567)
    '1.2 MB'
    """
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
