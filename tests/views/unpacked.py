"""Reads what `views.packed` wrote, as a page does, by the plain definition of each part."""

import zlib

import numpy as np

from workbench.views.packed import ALPHABET


def bytes_of(text):
    digits = [ALPHABET.index(c) for c in text[1:]]
    fives = [digits[k : k + 5] for k in range(0, len(digits), 5)]
    words = [sum(d * 85**k for k, d in enumerate(five)) for five in fives]
    data = b"".join(word.to_bytes(4, "little") for word in words)
    return zlib.decompress(data[: len(data) - int(text[0])], wbits=-15)


def text(packed):
    return bytes_of(packed).decode("utf-8")


def numbers(packed):
    width, count, words = packed
    planes = bytes_of(words)
    values = [
        sum(planes[plane * count + i] << (8 * plane) for plane in range(width))
        for i in range(count)
    ]
    return np.array(values, np.uint64)
