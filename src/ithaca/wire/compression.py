"""Compression of batch bodies: which there are, and how to undo them without trusting a byte.

```
flag 0 none: the body as it is
flag 1 lz4:  one LZ4 frame, its content size stored
flag 2 zstd: one Zstandard frame, its content size stored
```

A stored body is zero-padded to 8 bytes, so both formats are ones that know their own end. Both also say how
large the content is, which is compared with the batch's `raw_bytes` before anything is decompressed: a few
kilobytes can claim to be gigabytes, and zstandard would believe them whatever limit it is given.

The libraries are imported at first use: most logs need neither.
"""

import threading
from typing import Any, Final, cast, get_args

from ithaca.model.errors import Corrupt, UnknownCompression
from ithaca.model.limits import BATCH_BYTES_MAX
from ithaca.model.records import Buffer, Compression

NONE, LZ4, ZSTD = 0, 1, 2
_NAMES: Final[tuple[Compression, ...]] = ("none", "lz4", "zstd")
assert set(_NAMES) == set(get_args(Compression))

_local = threading.local()  # zstandard's objects must not be shared between threads, and cost 20 µs to make


def code_of(name: Compression) -> int:
    """The flag of a compression; `UnknownCompression` when there is none of that name."""
    try:
        return _NAMES.index(name)
    except ValueError:
        raise UnknownCompression(f"compression {name!r} is not known: use one of {', '.join(_NAMES)}") from None


def name_of(code: int) -> Compression:
    """The compression that a flag stands for; `UnknownCompression` when it stands for none."""
    if not 0 <= code < len(_NAMES):
        known = ", ".join(f"{number} ({name})" for number, name in enumerate(_NAMES))
        raise UnknownCompression(f"compression flag {code} is not known, only {known}: use a newer Ithaca")
    return _NAMES[code]


def compress(name: Compression, body: Buffer) -> bytes:
    """The body as a frame of the named format, without padding."""
    code = code_of(name)
    if code == LZ4:
        from lz4 import frame

        return cast(bytes, frame.compress(body, store_size=True))
    if code == ZSTD:
        return cast(bytes, _zstd_compressor().compress(body))
    return bytes(body)


def decompress(code: int, stored: Buffer, raw_bytes: int) -> bytes:
    """The body of exactly `raw_bytes` bytes; `Corrupt` when `stored` is anything else.

    The caller has checked that `raw_bytes` is at most `BATCH_BYTES_MAX`.
    """
    assert 0 <= raw_bytes <= BATCH_BYTES_MAX
    name = name_of(code)
    try:
        if code == LZ4:
            body = _decompress_lz4(stored, raw_bytes)
        elif code == ZSTD:
            body = _decompress_zstd(stored, raw_bytes)
        else:
            body = bytes(stored[:raw_bytes])
    except (Corrupt, MemoryError):
        raise
    except Exception as error:  # each library has errors of its own, and raises builtin ones besides
        raise Corrupt(f"a body does not decompress as {name}: {error}") from error
    _check_size(len(body), raw_bytes)
    return body


def _check_size(found: int, raw_bytes: int) -> None:
    if found != raw_bytes:
        raise Corrupt(f"a body of {raw_bytes} bytes was announced, and {found} are there or claimed")


def _decompress_lz4(stored: Buffer, raw_bytes: int) -> bytes:
    from lz4 import frame

    _check_size(frame.get_frame_info(stored)["content_size"], raw_bytes)
    decompressor = frame.LZ4FrameDecompressor()
    body = decompressor.decompress(stored, max_length=raw_bytes)
    if not decompressor.eof:
        raise Corrupt("an lz4 frame does not end where it says")
    return cast(bytes, body)


def _decompress_zstd(stored: Buffer, raw_bytes: int) -> bytes:
    import zstandard

    _check_size(zstandard.frame_content_size(stored), raw_bytes)
    return cast(bytes, _zstd_decompressor().decompress(stored, max_output_size=raw_bytes))


def _zstd_compressor() -> Any:
    if not hasattr(_local, "compressor"):
        import zstandard

        _local.compressor = zstandard.ZstdCompressor(write_content_size=True)
    return _local.compressor


def _zstd_decompressor() -> Any:
    if not hasattr(_local, "decompressor"):
        import zstandard

        # A frame names the window it wants allocated; no body of ours needs one above a batch.
        _local.decompressor = zstandard.ZstdDecompressor(max_window_size=BATCH_BYTES_MAX)
    return _local.decompressor
