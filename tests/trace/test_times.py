"""Exact times: the fast column forms against decimal arithmetic."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.trace import times
from workbench.units import us_text_to_ns


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        (b"0", 0),
        (b"1236", 1_236_000),
        (b"12.5", 12_500),
        (b"1751410836000000.049", 1_751_410_836_000_000_049),
        (b'"213757592882.500"', 213_757_592_882_500),
        (b"0.0005", 0),  # half to even: 0.5 ns goes to 0
        (b"0.0015", 2),  # 1.5 ns goes to 2
        (b"1e3", 1_000_000),
        (b"-2.001", -2_001),
    ],
)
def test_text(text, ns):
    assert times.from_texts([text]).tolist() == [ns]


@pytest.mark.parametrize("text", [b"", b"null", b"abc", b"1.2.3", b"[1]", b"1\n2", b".5", b"5."])
def test_no_number_is_missing(text):
    assert times.from_texts([text, b"1"]).tolist() == [times.MISSING, 1000]


@pytest.mark.parametrize("text", [b"99999999999999999999", b"-1e60", b"9" * 400])
def test_a_time_beyond_64_bits_is_missing(text):
    assert times.from_texts([text]).tolist() == [times.MISSING]


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        (b"1844674407370955", 1_844_674_407_370_955_000),  # 16 digits
        (b"9223372036854775", 9_223_372_036_854_775_000),
        (b"18446744073709552", times.MISSING),  # 17 digits: once wrapped around to 384 ns
        (b"123456789012345678", times.MISSING),
        (b"18446744073709552.5", times.MISSING),
    ],
)
def test_whole_microseconds_near_and_beyond_64_bits(text, ns):
    assert times.from_texts([text, text]).tolist() == [ns, ns]


decimals = st.builds(
    lambda whole, frac: str(whole) + ("." + frac if frac else ""),
    st.integers(0, 10**15 - 1),
    st.text("0123456789", max_size=5),
)


@given(st.lists(decimals, max_size=10))
def test_columns_of_text(values):
    got = times.from_texts([v.encode() for v in values])
    assert got.tolist() == [us_text_to_ns(v) for v in values]


@given(st.lists(decimals, min_size=1, max_size=6))
def test_doubles_are_exact_or_declined(values):
    got = times.from_doubles(np.array([float(v) for v in values]))
    if got is not None:
        assert got.tolist() == [us_text_to_ns(v) for v in values]


def test_doubles_below_the_limit_are_taken():
    got = times.from_doubles(np.array([1419116104994.671, 5.74, np.nan, 12.0]))
    assert got.tolist() == [1_419_116_104_994_671, 5_740, times.MISSING, 12_000]


def test_doubles_beyond_the_limit_are_declined():
    assert times.from_doubles(np.array([1751410836000000.049])) is None
    assert times.from_doubles(np.array([1.0005])) is None
