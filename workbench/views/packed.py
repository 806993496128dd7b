"""How numbers and texts travel inside a page: byte planes, deflated, as text safe in HTML and JSON.

`page_data.js` reads them back. Bytes of equal rank stand together, since high bytes repeat and low
ones do not; five characters hold four bytes, which is a fifteenth less than base64 takes.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ!#$%()*+,-./:;=?@[]^_{}"
"""85 characters without a meaning in HTML, in quotes and in JSON; page_data.js has the same."""
_CHARACTERS = np.frombuffer(ALPHABET.encode("ascii"), np.uint8)
_BASE, _DIGITS, _WORD = 85, 5, 4

Packed = list[Any]


def numbers(values: NDArray[Any]) -> Packed:
    """Return [bytes a number, count, text] of whole numbers from 0; each of them survives."""
    whole = np.ascontiguousarray(values).astype("<u8")
    width = max(1, -(-int(whole.max(initial=0)).bit_length() // 8))
    planes = whole.view(np.uint8).reshape(-1, 8)[:, :width].T
    return [width, len(whole), _base85(_deflated(planes.tobytes()))]


def signed(values: NDArray[Any]) -> Packed:
    """Pack whole numbers by their differences, with the sign in the lowest bit."""
    steps = np.array(values, np.int64)
    steps[1:] -= steps[:-1].copy()
    return numbers((steps << 1) ^ (steps >> 63))


def single(values: NDArray[Any]) -> Packed:
    """Pack numbers in single precision."""
    return numbers(values.astype("<f4").view("<u4"))


def text(words: str) -> str:
    """Return a text, smaller where it repeats itself."""
    return _base85(_deflated(words.encode("utf-8", "replace")))


def size(packed: Packed) -> int:
    """Return the bytes that it takes in a page."""
    return len(packed[-1])


def total(columns: Mapping[str, Packed]) -> int:
    """Return the bytes that several take."""
    return sum(map(size, columns.values()))


def _deflated(data: bytes) -> bytes:
    # no file name and no time in the stream: the same trace gives the same page
    stream = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return stream.compress(data) + stream.flush()


def _base85(data: bytes) -> str:
    """Return little-endian words in base 85, after the number of bytes that fill the last one."""
    fill = -len(data) % _WORD
    rest = np.frombuffer(data + bytes(fill), "<u4")
    digits = np.empty((len(rest), _DIGITS), np.uint8)
    for k in range(_DIGITS):
        rest, digits[:, k] = np.divmod(rest, np.uint32(_BASE))
    return str(fill) + _CHARACTERS[digits].tobytes().decode("ascii")
