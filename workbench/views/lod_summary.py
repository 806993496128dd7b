"""What the engine derives once from a timeline's events, so that every view of them is quick."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.int64]
Index = NDArray[np.int64]

STRIDE = 8
"""Starts between two of the sample that a search begins in; a power of two."""
LEVELS = 4
BLOCK = 2**LEVELS
"""Events summarised by one entry of the range-maximum index."""
SHIFT = np.array([0, 0, 1, 3, 6], np.uint16)
MASK = np.array([0, 1, 3, 7, 15], np.uint16)
"""Of `Summary.ahead`: for k = 0 … LEVELS, where the k bits of the 2^k events from each on stand."""
CHUNK = 2**18
"""Events whose `ahead` is derived at a time, for the sake of memory."""


class Summary(NamedTuple):
    """Arrays over events that stand sorted by row and start."""

    before: Times
    """Sum of the durations before each event, one entry more than events."""
    ahead: NDArray[np.uint16]
    """How far ahead the longest of the next 2^k events stands, k bits for each k: see SHIFT."""
    longest: NDArray[np.uint64]
    """The longest event of each block as (duration, index) in one key."""
    instants: Index
    """The events without duration."""
    sample: Times
    """Every STRIDE-th start of each row."""
    sampled: Index
    """rows + 1: row r has the samples [sampled[r], sampled[r + 1])."""


def summary(start: Times, dur: NDArray[np.integer], offset: Index) -> Summary:
    """Derive the arrays; row r holds the events [offset[r], offset[r + 1])."""
    # wraps only where sums of different rows meet: differences inside a row are exact
    before = np.zeros(len(start) + 1, np.int64)
    np.cumsum(dur, dtype=np.int64, out=before[1:])
    parts = [start[a:b:STRIDE] for a, b in itertools.pairwise(offset)]
    sample = np.concatenate(parts) if parts else start
    sampled = np.concatenate(([0], np.cumsum([len(p) for p in parts], dtype=np.int64)))
    return Summary(
        before, _ahead(dur), _block_maxima(dur), np.flatnonzero(dur == 0), sample, sampled
    )


def fits(found: Summary, events: int, offset: Index) -> bool:
    """Say whether arrays from elsewhere have the sizes and bounds of a summary of such events.

    Looks at a few entries a row, not at every event: a checksum vouches for those.
    """
    samples = -(-np.diff(offset) // STRIDE)
    return (
        len(found.before) == events + 1
        and len(found.ahead) == events
        and len(found.longest) == -(-events // BLOCK)
        and bool(((found.instants >= 0) & (found.instants < events)).all())
        and np.array_equal(found.sampled, np.concatenate(([0], np.cumsum(samples))))
        and len(found.sample) == int(samples.sum())
    )


def _ahead(dur: NDArray[np.integer]) -> NDArray[np.uint16]:
    """Return for each event where the longest of the 2^k events from it on stands, for each k.

    Any range of up to 2 * BLOCK events is two of these, which may overlap.
    """
    out = np.zeros(len(dur), np.uint16)
    for first in range(0, len(dur), CHUNK):
        part = dur[first : first + CHUNK + BLOCK - 1]
        # beyond the end nothing is longest
        most = np.concatenate((part.astype(np.int64), np.full(BLOCK, -1)))
        at = np.zeros(len(most), np.uint16)
        packed = out[first : first + CHUNK]
        for k in range(LEVELS):
            half = 2**k
            later = most[half:] > most[:-half]
            at = np.where(later, at[half:] + np.uint16(half), at[:-half])
            most = np.maximum(most[half:], most[:-half])
            packed |= at[: len(packed)] << SHIFT[k + 1]
    return out


def _block_maxima(dur: NDArray[np.integer]) -> NDArray[np.uint64]:
    """Return the longest event of each block as (duration, index) in one key.

    uint32 durations compare exactly; longer ones as float32, which keeps seven digits.
    """
    short = dur.dtype == np.uint32
    rank = dur if short else dur.astype(np.float32).view(np.uint32)
    out = np.zeros(-(-len(dur) // BLOCK), np.uint64)
    for k in range(min(BLOCK, len(dur))):
        part = rank[k::BLOCK].astype(np.uint64) << np.uint64(32)
        part |= np.arange(k, len(dur), BLOCK, dtype=np.uint64)
        np.maximum(out[: len(part)], part, out=out[: len(part)])
    return out
