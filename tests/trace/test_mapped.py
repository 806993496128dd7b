"""Files of arrays: what was written comes back, and nothing else ever does."""

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from isal import isal_zlib

from workbench.trace import mapped

ARRAYS = {
    "start": np.array([5, -(2**62), 7], np.int64),
    "none": np.empty(0, np.uint16),
    "name": np.arange(70, dtype=np.uint16),
}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "lanes.arrays"
    mapped.write(path, "k", ("one", "two"), b'{"a":1}', ARRAYS)
    return path


def test_what_was_written_comes_back_and_can_not_be_written_to(path):
    about, arrays = mapped.read(path, "k")
    assert about == b'{"a":1}'
    assert [*arrays] == [*ARRAYS]
    for name, array in arrays.items():
        assert array.dtype == ARRAYS[name].dtype
        assert array.tolist() == ARRAYS[name].tolist()
        assert not array.flags.writeable
    assert mapped.entries_of(path) == ("one", "two")
    assert [f.name for f in path.parent.iterdir()] == ["lanes.arrays"]  # no part is left


def test_arrays_begin_where_a_processor_likes_them(path):
    assert {a.ctypes.data % 64 for a in mapped.read(path, "k").arrays.values() if len(a)} == {0}


def test_another_key_finds_nothing(path):
    with pytest.raises(ValueError, match="something else"):
        mapped.read(path, "other")


def test_no_arrays_at_all(tmp_path):
    mapped.write(tmp_path / "f", "k", (), b"null", {})
    assert mapped.read(tmp_path / "f", "k") == (b"null", {})


@pytest.mark.parametrize(
    "array", [np.zeros((2, 2)), np.zeros(2), np.array([None]), np.array(["a"])], ids=str
)
def test_other_arrays_are_refused(tmp_path, array):
    with pytest.raises(ValueError, match="holds no"):
        mapped.write(tmp_path / "f", "k", (), b"{}", {"a": array})
    assert [*tmp_path.iterdir()] == []


def test_a_file_that_can_not_be_written_leaves_nothing(tmp_path):
    with pytest.raises(OSError, match="No such file"):
        mapped.write(tmp_path / "gone" / "f", "k", (), b"{}", ARRAYS)


def test_every_changed_byte_is_noticed(path):
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        with pytest.raises(mapped.UNREADABLE):
            mapped.read(path, "k")


@pytest.mark.parametrize("size", [0, 1, 23, 24, 63, 64, 300])
def test_a_cut_file_and_one_that_goes_on_are_noticed(path, size):
    whole = path.read_bytes()
    for damaged in (whole[:size], whole[: len(whole) - 64], whole + bytes(64)):
        path.write_bytes(damaged)
        with pytest.raises(mapped.UNREADABLE):
            mapped.read(path, "k")
    assert mapped.entries_of(path) == ("one", "two")  # of the last, whose header is whole


def forged(header: bytes, body: bytes) -> bytes:
    """Return a file with right checksums, whatever it holds."""
    header = header.ljust(-(-(24 + len(header)) // 64) * 64 - 24)
    crcs = isal_zlib.crc32(header), isal_zlib.crc32(body)
    return struct.pack("<8sQII", mapped.MAGIC, len(header), *crcs) + header + body


@pytest.mark.parametrize(
    "array",
    [
        b'{"dtype":"i8","length":9,"at":0}',  # longer than the file
        b'{"dtype":"i8","length":8,"at":64}',  # beyond it
        b'{"dtype":"i8","length":8,"at":-64}',
        b'{"dtype":"i8","length":-8,"at":0}',
        b'{"dtype":"O8","length":8,"at":0}',
        b'{"dtype":"","length":8,"at":0}',
        b'{"dtype":"i8","length":1e300,"at":0}',
        b'{"dtype":"u1","length":4611686018427387904,"at":0}',
        b'{"length":8,"at":0}',
        b"[]",
    ],
)
def test_a_header_that_lies_is_refused_though_its_checksum_is_right(tmp_path, array):
    header = b'{"key":"k","of":[],"about":{},"arrays":{"a":%s}}'
    good = forged(header % b'{"dtype":"i8","length":8,"at":0}', bytes(64))
    (tmp_path / "f").write_bytes(good)
    assert mapped.read(tmp_path / "f", "k").arrays["a"].tolist() == [0] * 8
    (tmp_path / "f").write_bytes(forged(header % array, bytes(64)))
    with pytest.raises(mapped.UNREADABLE):
        mapped.read(tmp_path / "f", "k")


@settings(max_examples=100)
@given(st.lists(st.sampled_from(sorted(mapped.TYPES)).flatmap(
    lambda t: st.lists(st.integers(0, 100), max_size=40).map(lambda v: np.array(v, t))
), max_size=6))  # fmt: skip
def test_any_arrays_come_back(tmp_path_factory, arrays):
    path = tmp_path_factory.mktemp("m") / "f"
    mapped.write(path, "k", (), b"[]", {str(i): a for i, a in enumerate(arrays)})
    back = mapped.read(path, "k").arrays
    assert [(a.dtype, a.tolist()) for a in back.values()] == [(a.dtype, a.tolist()) for a in arrays]
