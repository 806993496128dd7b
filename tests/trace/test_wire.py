"""The wire format, held against messages that the test itself encodes."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wiremade import message, varint

from workbench.trace import wire

VALUES = st.one_of(st.integers(0, 2**64 - 1), st.binary(max_size=20), st.floats(allow_nan=False))
MESSAGES = st.lists(st.lists(st.tuples(st.integers(1, 40), VALUES), max_size=6), max_size=8)

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def places(parts):
    ends = np.cumsum([len(p) for p in parts], dtype=np.int64)
    starts = np.concatenate(([0], ends[:-1])) if len(ends) else ends
    return b"".join(parts), starts.astype(np.int64), ends


@UNHURRIED
@given(MESSAGES)
def test_scan_finds_what_was_written(messages):
    data, begin, stop = places([message(*m) for m in messages])
    found = wire.scan(data, begin, stop)
    got = [[] for _ in messages]
    for i, number, kind, value, b, e in zip(*(c.tolist() for c in found), strict=True):
        double = np.uint64(value).view(np.float64).item()
        was = {wire.VARINT: value, wire.FIXED64: double, wire.DELIMITED: data[b:e]}
        got[i].append((number, was[kind]))
    assert got == messages


@UNHURRIED
@given(MESSAGES)
def test_walk_agrees_with_scan(messages):
    data, begin, stop = places([message(*m) for m in messages])
    found = wire.scan(data, begin, stop)
    for i, (b, e) in enumerate(zip(begin.tolist(), stop.tolist(), strict=True)):
        walked = [(f.number, f.begin, f.stop) for f in wire.walk(data, b, e)]
        mine = found.message == i
        assert [n for n, _, _ in walked] == found.number[mine].tolist()
        delimited = [(f.begin, f.stop) for f in wire.walk(data, b, e) if f.wire == wire.DELIMITED]
        here = found.where(mine & (found.wire == wire.DELIMITED))
        assert delimited == list(zip(here.begin.tolist(), here.stop.tolist(), strict=True))


@pytest.mark.parametrize(
    "broken",
    [
        b"\x08",  # a key without its value
        b"\x08\xff",  # a number that does not end
        b"\x08" + b"\xff" * 11,  # a number of too many bytes
        b"\x12\x05abc",  # a length past the end
        b"\x12" + varint(2**63) + b"abc",  # a length past every memory
        b"\x0b",  # a group, which is no type of today
        b"\x00\x01",  # field number 0
        b"\x09abc",  # half a double
    ],
)
def test_what_does_not_fit_is_an_error_of_its_own(broken):
    with pytest.raises(wire.WireError):
        list(wire.walk(broken, 0, len(broken)))
    whole = np.array([0]), np.array([len(broken)])
    with pytest.raises(wire.WireError):
        wire.scan(broken, *whole)


def test_a_message_may_not_read_into_its_neighbour():
    data = message((1, b"abcdef"))
    with pytest.raises(wire.WireError):
        wire.scan(data, np.array([0, 4]), np.array([4, 8]))


def test_a_message_of_endless_fields_is_refused():
    data = message((1, 1)) * (wire.MOST_FIELDS + 1)
    with pytest.raises(wire.WireError, match="over 16384 fields"):
        wire.scan(data, np.array([0]), np.array([len(data)]))


@UNHURRIED
@given(st.lists(st.lists(st.integers(0, 2**64 - 1), max_size=5), max_size=5))
def test_packed_numbers(lists):
    data, begin, stop = places([b"".join(map(varint, x)) for x in lists])
    which, values = wire.packed(data, begin, stop)
    got = [[] for _ in lists]
    for i, value in zip(which.tolist(), values.tolist(), strict=True):
        got[i].append(value)
    assert got == lists


@pytest.mark.parametrize("broken", [b"\x01\xff", b"\xff" * 11 + b"\x01"])
def test_packed_numbers_that_do_not_end(broken):
    with pytest.raises(wire.WireError):
        wire.packed(broken, np.array([0]), np.array([len(broken)]))
