"""Protocol-buffer messages written by hand in tests: a field is (number, value).

int: varint (negative as two's complement), float: a double, str or bytes: delimited, list: packed
varints, tuple of fields: a message.
"""

import struct


def varint(value):
    value &= 2**64 - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def message(*fields):
    return b"".join(field(number, value) for number, value in fields)


def field(number, value):
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, str):
        value = value.encode()
    elif isinstance(value, list):
        value = b"".join(map(varint, value))
    elif isinstance(value, tuple):
        value = message(*value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def stream(*messages):
    return b"".join(varint(len(m)) + m for m in messages)
