"""Files that are replaced as a whole: the last body, or a typed refusal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.storage.lanes import disk_of

from ithaca.model.errors import Corrupt, FormatTooNew
from ithaca.storage import checked_file


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=4))
def test_a_checked_file_holds_what_was_put_there_last(bodies: list[bytes]) -> None:
    disk = disk_of()
    for body in bodies:
        checked_file.replace(disk, "/lane", "meta", body)
        assert checked_file.load(disk, "/lane/meta") == body
        assert disk.list("/lane") == ["meta"]


def test_a_damaged_checked_file_is_refused() -> None:
    data = checked_file.encode(b"the body")
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 0x40
        for content in (bytes(damaged), data[:at]):
            with pytest.raises(Corrupt) as caught:
                checked_file.load(disk_of({"meta": content}), "/lane/meta")
            assert caught.value.file == "/lane/meta"
    with pytest.raises(Corrupt):
        checked_file.load(disk_of({"meta": data + b"\0"}), "/lane/meta")


def test_a_checked_file_from_the_future_is_refused_by_name() -> None:
    disk = disk_of({"meta": checked_file.encode(b"x", version=7)})
    with pytest.raises(FormatTooNew) as caught:
        checked_file.load(disk, "/lane/meta")
    assert (caught.value.found, caught.value.supported) == (7, checked_file.VERSION)
