"""A large trace from a recorded one: its events again and again, later each time.

    python benchmarks/grow.py IN.json.gz OUT.json.gz TIMES

Times and the ids that tie events together are shifted, so that the copies neither overlap nor mix.
Only for measuring: what it writes was never recorded.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import msgspec
from isal import igzip

IDS = rb'"(correlation|External id|Python id|Python parent id|Sequence number|Record function id)"'
FIELD = re.compile(rb'("ts":\s*)(\d+)|(' + IDS + rb":\s*)(\d+)")
TIME = re.compile(rb'"ts":\s*(\d+)')
ID_STRIDE = 10_000_000


class Events(msgspec.Struct):
    traceEvents: msgspec.Raw  # noqa: N815


def grow(source: Path, target: Path, times: int) -> None:
    text = igzip.decompress(source.read_bytes())
    events = bytes(msgspec.json.decode(text, type=Events).traceEvents)[1:-1]
    begin = text.index(events)
    end = begin + len(events)
    stamps = [int(t) for t in TIME.findall(events)]
    latest = max(stamps)
    earliest = min(t for t in stamps if t > latest // 2)  # metadata events carry small ones
    span = latest - earliest + 1_000_000
    with igzip.open(target, "wb", compresslevel=1) as out:
        out.write(text[:begin])
        for copy in range(times):
            out.write(b"," * bool(copy) + shifted(events, copy * span, copy * ID_STRIDE))
        out.write(text[end:])


def shifted(events: bytes, later: int, ids: int) -> bytes:
    if not later:
        return events

    def replace(found: re.Match[bytes]) -> bytes:
        if found[1]:
            return found[1] + b"%d" % (int(found[2]) + later)
        return found[3] + b"%d" % (int(found[5]) + ids)

    return FIELD.sub(replace, events)


if __name__ == "__main__":
    grow(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
