"""Damage for trace files, and what must be true of a damaged file however it is opened."""

from __future__ import annotations

import gzip
import random
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import nsysfile
import reference

import workbench as wb
from workbench.errors import WorkbenchError

SECONDS = 60
_MEMBER = re.compile(rb'"([A-Za-z][A-Za-z _]{0,30})":\s*("(?:[^"\\]|\\.)*"|-?[0-9.eE+-]+)')
_VALUES = (b'"x"', b"null", b"[]", b"{}", b"true", b"-1", b"1e999", b"0", b'"12.5"', b"9" * 30)
Mutation = Callable[[bytes, random.Random], bytes]


def flip_bits(data: bytes, rng: random.Random) -> bytes:
    """Flip one to eight bits."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 8)):
        out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def cut(data: bytes, rng: random.Random) -> bytes:
    """Keep the beginning."""
    return data[: rng.randrange(1, len(data))]


def cut_out(data: bytes, rng: random.Random) -> bytes:
    """Lose a stretch in the middle."""
    begin = rng.randrange(len(data))
    return data[:begin] + data[begin + rng.randint(1, 2000) :]


def _member(data: bytes, rng: random.Random) -> re.Match[bytes] | None:
    return _MEMBER.search(data, rng.randrange(len(data)))


def swap_type(data: bytes, rng: random.Random) -> bytes:
    """Give a member a value of another type."""
    found = _member(data, rng)
    return (
        data if not found else data[: found.start(2)] + rng.choice(_VALUES) + data[found.end(2) :]
    )


def duplicate_key(data: bytes, rng: random.Random) -> bytes:
    """Say a member twice, the second time with another value."""
    found = _member(data, rng)
    if not found:
        return data
    again = b', "' + found[1] + b'": ' + rng.choice(_VALUES)
    return data[: found.end()] + again + data[found.end() :]


def remove_key(data: bytes, rng: random.Random) -> bytes:
    """Take a member out, with the comma after it."""
    found = _member(data, rng)
    if not found:
        return data
    return data[: found.start()] + data[found.end() :].lstrip(b" \n\r,")


def pages(data: bytes, rng: random.Random) -> bytes:
    """Flip bits of a database, overwrite or swap its pages, or cut it."""
    out = bytearray(data)
    size = int.from_bytes(data[16:18], "big")
    page = rng.randrange(len(data) // size) * size
    match rng.randrange(5):
        case 0:
            for _ in range(rng.choice((1, 8, 64))):
                out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
        case 1:
            out[page : page + size] = rng.randbytes(size)
        case 2:
            other = rng.randrange(len(data) // size) * size
            out[page : page + size] = out[other : other + size]
        case 3:
            del out[rng.randrange(len(out)) :]
        case 4:
            at = page + rng.randrange(size // 8)
            out[at : at + 8] = rng.randbytes(8)
    return bytes(out)


TEXT: tuple[Mutation, ...] = (flip_bits, cut, cut_out, swap_type, duplicate_key, remove_key)
PACKED: tuple[Mutation, ...] = (flip_bits, cut, cut_out)


def mutants(path: Path, rng: random.Random) -> Iterator[tuple[str, bytes, bool]]:
    """Yield damaged forms of a file without end: how, the bytes, whether the packed ones."""
    data = path.read_bytes()
    is_gzip = data[:2] == b"\x1f\x8b"
    text = gzip.decompress(data) if is_gzip else data
    while True:
        packed = is_gzip and rng.random() < 0.25
        how = rng.choice(PACKED if packed else TEXT)
        yield how.__name__, how(data if packed else text, rng), packed


def sqlite_mutants(path: Path, rng: random.Random) -> Iterator[tuple[str, bytes, bool]]:
    """Yield damaged forms of a database without end."""
    data = path.read_bytes()
    while True:
        yield "pages", pages(data, rng), False


Known = frozenset[tuple[str, int]]


def problems_of(trace: wb.Trace) -> Known:
    """Return what is noted of a trace, to tell what damage has added."""
    return frozenset(trace.problems.select("code", "count").rows())


def check_sqlite(path: Path, data: bytes, known: Known = frozenset()) -> str:
    """Open a damaged export: refused in a sentence, named among the problems, or exact.

    `known` are the problems of the undamaged file; only others name the damage.
    """
    path.write_bytes(data)
    trace = opened_or_refused(path)
    if trace is None:
        return "refused"
    summary = wb.summary(trace, window="all")
    if problems_of(trace) != known:
        return "named"
    got = {r["device"]: r["busy_ns"] for r in summary.iter_rows(named=True)}
    want = nsysfile.busy_ns(path)
    if trace.meta.device_kind != "cpu" and want and got != want:
        raise AssertionError(f"silently different: {got} is not {want}")
    return "exact"


def check_json(
    path: Path, data: bytes, known: Known = frozenset(), *, original: bytes | None = None
) -> str:
    """Open damaged bytes: refused in a sentence, or named among the problems, or exact.

    `known` are the problems of the undamaged file; only others name the damage. `original` is what
    the file was before, when its packed bytes were damaged.
    """
    path.write_bytes(data)
    trace = opened_or_refused(path)
    if trace is None:
        return "refused"
    summary = wb.summary(trace, window="all")
    if problems_of(trace) != known:
        return "named"
    try:
        want = reference.totals(data if original is None else original)
    except (ValueError, KeyError, TypeError, EOFError, OSError):
        want = None
    got = {
        r["device"]: {k: r[k] for k in ("busy_ns", "copy_ns", "window_ns", "kernels", "copies")}
        for r in summary.iter_rows(named=True)
        if r["device"] is not None
    }
    assert want is not None, "read without a word, where the slow reader fails"
    assert got == want, f"silently different: {got} is not {want}"
    return "exact"


def opened_or_refused(path: Path) -> wb.Trace | None:
    """Open a damaged file; None when it is refused in one sentence, in time."""
    with at_most(SECONDS):
        try:
            return wb.open(path, cache=False)
        except WorkbenchError as error:
            sentence = str(error)
    if "\n" in sentence:
        raise AssertionError(sentence)
    return None


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Fail when the body takes longer."""

    def stop(*_: object) -> None:
        raise AssertionError(f"no answer in {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
