"""Compression of bodies: round trips, refusals, and bombs that must not go off."""

import subprocess
import sys
import threading
import tracemalloc

import lz4.frame
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from ithaca.model.errors import Corrupt, UnknownCompression
from ithaca.model.limits import MIB
from ithaca.model.records import Compression
from ithaca.wire import compression
from ithaca.wire.compression import LZ4, NONE, ZSTD

NAMES: list[Compression] = ["none", "lz4", "zstd"]
CODES = [NONE, LZ4, ZSTD]
PACKED = [LZ4, ZSTD]


def pack(code: int, body: bytes) -> bytes:
    return compression.compress(compression.name_of(code), body)


def test_flags_are_a_format() -> None:
    assert [compression.code_of(name) for name in NAMES] == [0, 1, 2]
    assert [compression.name_of(code) for code in (0, 1, 2)] == NAMES


@pytest.mark.parametrize("code", CODES)
@given(body=st.binary(max_size=300) | st.binary(max_size=9).map(lambda part: part * 5000), view=st.booleans())
@settings(max_examples=60, deadline=None)
def test_round_trip_with_padding(code: int, body: bytes, view: bool) -> None:
    packed = pack(code, body)
    stored = packed + bytes(-len(packed) % 8)
    assert compression.decompress(code, memoryview(stored) if view else stored, len(body)) == body


@pytest.mark.parametrize("code", PACKED)
def test_compresses(code: int) -> None:
    assert len(pack(code, bytes(MIB))) < MIB // 100


@pytest.mark.parametrize("name", ["gzip", "", "LZ4", "snappy"])
def test_unknown_names_are_refused_with_the_known_ones(name: Compression) -> None:
    with pytest.raises(UnknownCompression, match="none, lz4, zstd"):
        compression.compress(name, b"x")


@pytest.mark.parametrize("code", [3, -1, 255])
def test_unknown_flags_are_refused_with_the_known_ones(code: int) -> None:
    with pytest.raises(UnknownCompression, match=r"0 \(none\), 1 \(lz4\), 2 \(zstd\)"):
        compression.decompress(code, b"x", 1)


@pytest.mark.parametrize("code", CODES)
@given(garbage=st.binary(max_size=200), raw_bytes=st.integers(1, 1000))
@settings(max_examples=100, deadline=None)
def test_garbage_is_corrupt(code: int, garbage: bytes, raw_bytes: int) -> None:
    if code == NONE and len(garbage) >= raw_bytes:
        assert compression.decompress(code, garbage, raw_bytes) == garbage[:raw_bytes]
        return
    with pytest.raises(Corrupt):
        compression.decompress(code, garbage, raw_bytes)


@pytest.mark.parametrize("code", PACKED)
def test_every_truncation_is_corrupt(code: int) -> None:
    body = bytes(range(256)) * 8
    packed = pack(code, body)
    for end in range(len(packed)):
        with pytest.raises(Corrupt):
            compression.decompress(code, packed[:end], len(body))


@pytest.mark.parametrize("code", PACKED)
def test_every_flipped_bit_gives_corrupt_or_a_body_of_the_right_size(code: int) -> None:
    """Damage is for the checksum to find; here nothing else may be raised, and no size may be wrong."""
    body = b"a small body with some repetition, repetition, repetition" * 2
    packed = bytearray(pack(code, body))
    outcomes = {"corrupt": 0, "body": 0}
    for bit in range(8 * len(packed)):
        packed[bit // 8] ^= 1 << bit % 8
        try:
            assert len(compression.decompress(code, bytes(packed), len(body))) == len(body)
            outcomes["body"] += 1
        except Corrupt:
            outcomes["corrupt"] += 1
        packed[bit // 8] ^= 1 << bit % 8
    assert outcomes["corrupt"] > 0


@pytest.mark.parametrize("code", PACKED)
@pytest.mark.parametrize("difference", [-1, 1])
def test_a_wrong_size_is_corrupt(code: int, difference: int) -> None:
    with pytest.raises(Corrupt, match="100"):
        compression.decompress(code, pack(code, b"x" * 100), 100 + difference)


def test_frames_that_do_not_say_their_size_are_corrupt() -> None:
    body = b"x" * 100
    silent = {
        LZ4: lz4.frame.compress(body, store_size=False),
        ZSTD: zstandard.ZstdCompressor(write_content_size=False).compress(body),
    }
    for code, stored in silent.items():
        with pytest.raises(Corrupt):
            compression.decompress(code, stored, len(body))


def lying_zstd(content: bytes, claimed: int) -> bytes:
    """A frame whose header claims another size: 4 bytes behind the magic and the descriptor."""
    packed = bytearray(zstandard.ZstdCompressor().compress(content))
    assert packed[4] >> 6 == 2, "the size is stored in 4 bytes"
    at = 5 if packed[4] & 0x20 else 6
    assert int.from_bytes(packed[at : at + 4], "little") == len(content)
    packed[at : at + 4] = claimed.to_bytes(4, "little")
    return bytes(packed)


def lying_lz4(content: bytes, claimed: int) -> bytes:
    """The same for LZ4, whose header ends with a checksum of one byte: one of 256 fits."""
    packed = bytearray(lz4.frame.compress(content, store_size=True))
    assert int.from_bytes(packed[6:14], "little") == len(content)
    packed[6:14] = claimed.to_bytes(8, "little")
    for check in range(256):
        packed[14] = check
        try:
            if lz4.frame.get_frame_info(bytes(packed))["content_size"] == claimed:
                return bytes(packed)
        except RuntimeError:
            continue
    raise AssertionError("no checksum fits")


@pytest.mark.parametrize("code", PACKED)
@pytest.mark.parametrize("honest", [True, False])
def test_bombs_are_refused_in_little_memory(code: int, honest: bool) -> None:
    content, announced = bytes(64 * MIB), MIB
    lie = lying_lz4 if code == LZ4 else lying_zstd
    bomb = pack(code, content) if honest else lie(content, announced)
    del content
    tracemalloc.start()
    try:
        with pytest.raises(Corrupt):
            compression.decompress(code, bomb, announced)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * MIB


def test_threads_do_not_share_compressors() -> None:
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for number in range(100):
                body = bytes((seed + number + at) % 251 for at in range(200)) * (1 + number % 7)
                assert compression.decompress(ZSTD, compression.compress("zstd", body), len(body)) == body
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_libraries_are_imported_only_when_used() -> None:
    program = (
        "import sys\n"
        "from ithaca.wire import batch as batches, build\n"
        "batch = build.build([b'x'], timestamp_us=0)\n"
        "parsed = batches.parse(b''.join(map(bytes, batch.buffers())))\n"
        "assert parsed.records(1, 0)[0].value == b'x'\n"
        "print([name for name in ('lz4', 'zstandard', 'pyarrow') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
