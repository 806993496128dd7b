"""Numbers and texts in a page: each comes back, and no character can end what it stands in."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from views import unpacked

from workbench.views import packed


@pytest.mark.parametrize(
    ("values", "width"),
    [([], 1), ([0], 1), ([255], 1), ([256, 1], 2), ([2**32 - 1, 2**32], 5), ([2**63 - 1], 8)],
)
def test_numbers_take_as_many_bytes_as_the_largest(values, width):
    found = packed.numbers(np.array(values, np.int64))
    assert found[:2] == [width, len(values)]
    assert unpacked.numbers(found).tolist() == values


@given(st.lists(st.integers(0, 2**63 - 1), max_size=50))
def test_every_number_comes_back(values):
    assert unpacked.numbers(packed.numbers(np.array(values, np.int64))).tolist() == values


@given(st.text(st.characters(codec="utf-8")))
def test_every_text_comes_back(text):
    assert unpacked.text(packed.text(text)) == text


def test_a_word_in_base_85():
    # 1 + 2 * 85 is the word 171: digits 1, 2, 0, 0, 0; nothing fills it
    assert packed._base85((171).to_bytes(4, "little")) == "0" + "12000"
    # one byte 171 is filled with three
    assert packed._base85(bytes([171])) == "3" + "12000"


def test_no_character_means_anything_to_a_page():
    assert len(set(packed.ALPHABET)) == 85
    assert not set(packed.ALPHABET) & set("<>&\"'`\\")
    assert json.dumps(packed.ALPHABET) == f'"{packed.ALPHABET}"'


def test_half_a_character_is_replaced():
    assert unpacked.text(packed.text("a\ud800b")) == "a?b"
