"""Repeated runs in sequences of numbers: which n-grams repeat, and how to lay them out."""

from __future__ import annotations

import heapq
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from workbench.intervals import Times
from workbench.trace.nesting import Rows

TWICE = 2
_Number = TypeVar("_Number", int, Times)


class Gram(NamedTuple):
    """A run of `length` tokens and the positions where it was laid out."""

    length: int
    at: Rows


class _Grams(NamedTuple):
    """All n-grams of one length that occur at least twice."""

    length: int
    at: Rows
    """Their positions, by gram, in order."""
    first: Rows
    """Where each gram's positions begin in `at`; one more at the end."""
    of: Rows
    """The gram at each position of the sequence, -1 where it does not repeat."""


def tiled(
    token: Rows,
    segment: Rows,
    weight: Times,
    wanted: NDArray[np.bool_],
    *,
    length: tuple[int, int],
    most: int,
) -> list[Gram]:
    """Choose repeated runs that share no token, the heaviest first; at most `most`.

    `token` are names as numbers (-1: in no run), `segment` ascends and no run crosses one. A
    candidate is a run of `length[0]` to `length[1]` tokens that repeats, holds a token that is
    `wanted`, is not itself a shorter run repeated, and is maximal: each run of one token more
    around it occurs less often, not counting occurrences that begin inside the one before, or is
    too long. Again and again that candidate is taken whose occurrences, from left to right without
    overlap and clear of tokens that are taken, are two or more and weigh the most together, times
    (n - 1) / n for n tokens: made one, all but one of them are saved. Of equal ones the shorter is
    taken, then the one that begins first.
    """
    levels = _levels(token, segment, length[1])
    total = np.concatenate((np.zeros(1, np.int64), np.cumsum(weight)))
    before = np.concatenate((np.zeros(1, np.int64), np.cumsum(wanted, dtype=np.int64)))
    waiting = [
        c for n in range(length[0], length[1] + 1) for c in _candidates(levels, n, total, before)
    ]
    heapq.heapify(waiting)
    free = np.ones(len(token), np.bool_)
    chosen: list[Gram] = []
    taken = np.zeros(len(token) + 1, np.int64)
    while waiting and len(chosen) < most:
        _, n, begin, gram = heapq.heappop(waiting)
        at = _apart(_occurrences(levels[n], gram), n, taken)
        if len(at) < TWICE:
            continue
        heavy = (-_worth(int((total[at + n] - total[at]).sum()), n), n, begin, gram)
        if waiting and heavy > waiting[0]:
            heapq.heappush(waiting, heavy)
            continue
        chosen.append(Gram(n, at))
        free[(at[:, None] + np.arange(n)).ravel()] = False
        np.cumsum(~free, out=taken[1:])
    return chosen


def _levels(token: Rows, segment: Rows, longest: int) -> dict[int, _Grams]:
    """Return the repeated n-grams by length, to one beyond the longest: each from the one before.

    An n-gram repeats only where its first n - 1 tokens do, so ever fewer positions are left.
    """
    at = np.flatnonzero(token >= 0)
    of = np.where(token >= 0, token, -1)
    levels = {1: _grams(1, at, of[at], len(token))}
    for n in range(2, longest + 2):
        before = levels[n - 1]
        at = np.flatnonzero(before.of[: max(len(token) - n + 1, 0)] >= 0)
        whole = (segment[at] == segment[at + n - 1]) & (token[at + n - 1] >= 0)
        at = at[whole]
        last = np.maximum(token[at + n - 1], 0)
        key = before.of[at] * (int(token.max(initial=0)) + 1) + last
        levels[n] = _grams(n, at, key, len(token))
    return levels


def _grams(n: int, at: Rows, key: Rows, size: int) -> _Grams:
    """Group ascending positions by key and keep the keys that are met twice."""
    order = np.argsort(key, kind="stable")
    starts = np.flatnonzero(np.diff(key[order], prepend=-1))
    count = np.diff(np.append(starts, len(key)))
    repeats = count > 1
    at = at[order][np.repeat(repeats, count)]
    count = count[repeats]
    of = np.full(size, -1)
    of[at] = np.repeat(np.arange(len(count)), count)
    return _Grams(n, at, np.concatenate((np.zeros(1, np.int64), np.cumsum(count))), of)


def _occurrences(grams: _Grams, gram: int) -> Rows:
    return grams.at[grams.first[gram] : grams.first[gram + 1]]


def _candidates(
    levels: dict[int, _Grams], n: int, total: Times, wanted: Rows
) -> list[tuple[int, int, int, int]]:
    """Return `-weight length begin gram` of the maximal n-grams; overlaps weigh in full here."""
    grams, longer = levels[n], levels[n + 1]
    if not len(grams.at):
        return []
    count = np.diff(grams.first)
    begin = grams.at[grams.first[:-1]]
    keep = ~_periodic(levels, n) & (wanted[begin + n] > wanted[begin])
    if n + 1 < len(levels):  # the last level is only there to be looked into
        keep &= _most_extended(grams, longer) < count
    weight = np.add.reduceat(total[grams.at + n] - total[grams.at], grams.first[:-1])
    chosen = np.flatnonzero(keep)
    return list(
        zip(
            (-_worth(weight[chosen], n)).tolist(),
            [n] * len(chosen),
            begin[chosen].tolist(),
            chosen.tolist(),
            strict=True,
        )
    )


def _worth(weight: _Number, n: int) -> _Number:
    """Return the part of a weight that counts: of n tokens, all but one."""
    return weight * (n - 1) // n


def _most_extended(grams: _Grams, longer: _Grams) -> Rows:
    """Return how often the most frequent run of one token more, on either side, occurs.

    Occurrences that begin inside the one before don't count: a run repeated end to end is found in
    every longer run around it as often, and is what repeats.
    """
    apart = np.diff(longer.at, prepend=-longer.length) >= longer.length
    apart[longer.first[:-1]] = True
    counted = np.concatenate((np.zeros(1, np.int64), np.cumsum(apart)))
    count = np.append(np.diff(counted[longer.first]), 0)
    right = count[longer.of[grams.at]]
    left = np.where(grams.at > 0, count[longer.of[grams.at - 1]], 0)
    return np.maximum.reduceat(np.maximum(left, right), grams.first[:-1])


def _periodic(levels: dict[int, _Grams], n: int) -> NDArray[np.bool_]:
    """Say which n-grams are a shorter run at least twice over: equal to themselves, shifted."""
    begin = levels[n].at[levels[n].first[:-1]]
    found = np.zeros(len(begin), np.bool_)
    for period in range(1, n // 2 + 1):
        rest = levels[n - period].of
        found |= rest[begin] == rest[begin + period]
    return found


def _apart(at: Rows, n: int, taken: Rows) -> Rows:
    """Return the occurrences, from left to right, that share no token and hold no taken one.

    `taken` counts the taken tokens before each position.
    """
    at = at[taken[at + n] == taken[at]]
    if len(at) < TWICE or (np.diff(at) >= n).all():
        return at
    kept, after = [], 0
    for place in at.tolist():
        if place >= after:
            kept.append(place)
            after = place + n
    return np.array(kept)
