"""Plain data out of a pickle that nobody vouches for; anything else in it is refused.

Two locks, each enough alone. Every opcode is checked before the first runs: only those that make
numbers, texts, lists, dicts and tuples of whole numbers are allowed, and none of them can name,
build or call anything. And the machine that then runs them refuses to look up any name.
What an opcode claims is checked too: memory that a few bytes could ask for (a place in the memo, a
length) must be backed by that many bytes of input, and tuples can't be nested, since hashing a
deep one overruns the stack.
"""

from __future__ import annotations

import io
import pickle
import re
from typing import Any, NoReturn

from workbench.errors import InputError, NotATraceError
from workbench.trace import collector

MOST_BYTES = 1 << 29
MOST_CONTAINERS = 1 << 23
"""Lists and dicts, which cost a hundred times the byte that makes one. Raise both to read more."""
_LONG = b"|".join(rb"\x8a" + bytes([n]) + rb".{%d}" % n for n in range(10))
_INT = rb"(?:K.|M..|J....|" + _LONG + rb")"
_TUPLE = rb"(?:\)|" + _INT + rb"\x85|" + _INT + _INT + rb"\x86|" + _INT * 3 + rb"\x87)"
_PLAIN = re.compile(
    rb"(?:"
    + _TUPLE
    + rb"|"
    + _INT
    + rb"|[N\x88\x89]|G.{8}|[\]}(aesu]|h.|j....|q.|\x94|\x95.{8})*+",
    re.DOTALL,
)
"""Opcodes of fixed length: whole numbers and tuples of them, None, true, false, a double, list,
dict, mark, append(s), setitem(s), memo get and put, frame."""
_LENGTHS = {0x8C: 1, ord("X"): 4, 0x8D: 8}
"""Text, by the bytes that its length takes."""
_LONG_PUT, _STOP = ord("r"), ord(".")
_SPARE_PUTS = 1024
FAILURES = (
    pickle.UnpicklingError,
    EOFError,
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    OverflowError,
    MemoryError,
)
"""What the machine raises on opcodes that don't fit together."""


class _PlainUnpickler(pickle.Unpickler):
    """Builds what has literal opcodes of its own and refuses to look anything up."""

    def find_class(self, module: str, name: str) -> NoReturn:
        """Refuse."""
        raise pickle.UnpicklingError(f"{module}.{name}")

    def persistent_load(self, pid: object) -> NoReturn:
        """Refuse."""
        raise pickle.UnpicklingError(str(pid))


def plain(data: bytes, name: str) -> Any:
    """Return the plain data that a pickle describes; `name` stands for the file in messages.

    Raises
    ------
    NotATraceError
        It would build something else than plain data.
    InputError
        It is damaged, cut short or absurdly large.
    """
    if len(data) > MOST_BYTES or data.count(b"]") + data.count(b"}") > MOST_CONTAINERS:
        raise InputError(
            f"{name} is a pickle of {len(data) >> 20} MiB, more than is read; record a shorter "
            "history (max_entries), or raise MOST_BYTES and MOST_CONTAINERS in "
            "workbench.trace.memory.pickles."
        )
    _check(data, name)
    try:
        return _load(data)
    except FAILURES:
        raise InputError(f"{name} is a damaged pickle; record it again or copy it whole.") from None


def _load(data: bytes) -> Any:
    with collector.paused():
        return _PlainUnpickler(io.BytesIO(data)).load()


def _check(data: bytes, name: str) -> None:
    """Walk over all opcodes up to the end of the pickle."""
    at, puts = 2, 0
    while at < len(data):
        at = _PLAIN.match(data, at).end()  # type: ignore[union-attr]  # it matches nothing, too
        code = data[at] if at < len(data) else None
        if code == _STOP:
            return
        if code in _LENGTHS:
            width = _LENGTHS[code]
            at += 1 + width
            at += int.from_bytes(data[at - width : at], "little")
        elif code == _LONG_PUT:
            puts += 1
            if int.from_bytes(data[at + 1 : at + 5], "little") > puts + _SPARE_PUTS:
                raise InputError(f"{name} is a damaged pickle; record it again or copy it whole.")
            at += 5
        elif code is not None and at + 9 < len(data):
            raise NotATraceError(
                f"{name} is a pickle of more than plain data (opcode {code:#04x}), "
                "which is never loaded from a foreign file."
            )
        else:
            break
    raise InputError(f"{name} is a pickle that ends early; record it again or copy it whole.")
