"""Text that is no JSON, mended where the meaning is certain; what can't be mended is left out.

Writers forget to escape: control characters and line breaks inside names, Windows paths with
single backslashes, bare `inf` and `nan`. Each is mended inside one token and counted.
"""

from __future__ import annotations

import re
from collections import Counter

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BARE = re.compile(rb"(?<=[:,\[])(\s*)[-+]?(?:inf(?:inity)?|nan)(?=\s*[,}\]])", re.IGNORECASE)
_CONTROL = re.compile(rb"[\x00-\x1f]")
_LONE = re.compile(rb"\\(?![\"\\/bfnrt]|u[0-9a-fA-F]{4})")
_BACKSLASH = re.compile(rb"\\(?!\")")
_LONE_SURROGATE = re.compile(
    rb"\\u[dD][89abAB]..(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..)\\u[dD][c-fC-F].."
)

REPAIRS = {
    "control_characters": "escaped inside the names that held them; times are untouched",
    "lone_backslashes": "kept as they stand in names; times are untouched",
    "bad_encoding": "bytes that are no UTF-8 are shown as �; times are untouched",
    "bare_numbers": "inf and nan are no measurements and read as not recorded",
}
"""What can be mended, and what it means for the numbers."""


def mend(text: bytes) -> tuple[bytes, Counter[str]]:
    """Return the text with every certain repair made, and how many of each kind were needed."""
    counts: Counter[str] = Counter()
    try:
        text.decode()
    except UnicodeDecodeError:
        mended = text.decode(errors="replace")
        counts["bad_encoding"] = mended.count("�") - text.count("�".encode())
        text = mended.encode()
    text = _STRING.sub(lambda found: _string(found[0], counts), text)
    text, bare = _outside_strings(text)
    if bare:
        counts["bare_numbers"] = bare
    return text, counts


def _string(token: bytes, counts: Counter[str]) -> bytes:
    if _LONE.search(token):
        # one illegal escape shows that this writer doesn't escape: \n is a path's \n here too
        token = _BACKSLASH.sub(rb"\\\\", token)
        counts["lone_backslashes"] += 1
    if _CONTROL.search(token):
        token = _CONTROL.sub(lambda c: b"\\u%04x" % c[0][0], token)
        counts["control_characters"] += 1
    if _LONE_SURROGATE.search(token):
        token = _LONE_SURROGATE.sub(rb"\\ufffd", token)
        counts["bad_encoding"] += 1
    return token


def _outside_strings(text: bytes) -> tuple[bytes, int]:
    """Replace bare inf and nan by null, between strings only."""
    if not _BARE.search(text):
        return text, 0
    out, count, at = [], 0, 0
    for found in _STRING.finditer(text):
        between, n = _BARE.subn(rb"\1null", text[at : found.start() + 1])
        out += [between[:-1], found[0]]
        count, at = count + n, found.end()
    between, n = _BARE.subn(rb"\1null", text[at:])
    return b"".join([*out, between]), count + n
