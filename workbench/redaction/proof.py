"""The proof: every analysis and every table of the original and of the copy, laid side by side.

Names of the copy are put back by the key first. Rows are compared whatever their order, since an
order by name is another order for pseudonyms. Where the two differ, the copy is also held against
the original without its Python stacks: what is the same then differs by choice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

import msgspec
import polars as pl

from workbench import show
from workbench.analysis.names import ANALYSES
from workbench.analysis.rules.account import EXAMPLE_LENGTH
from workbench.errors import WorkbenchError
from workbench.redaction.key import Key
from workbench.redaction.tables import of_modules
from workbench.show import TABLE, Choice
from workbench.trace.core import Job, Trace
from workbench.trace.raw import JSON_TEXTS

SCHEMA: dict[str, pl.DataType] = {
    "name": pl.String(),
    "kind": pl.String(),
    "rows": pl.Int64(),
    "same": pl.Boolean(),
    "difference": pl.String(),
}
NONE = "none"
BY_CHOICE = "none but for the Python stacks that are left out"
_RELATIVE, _ABSOLUTE = 1e-9, 1e-12
_OWN = {"events", "producer"}
"""What is said beside rows of the file itself, not of the recording."""
_SHORT = 80
_RENUMBERED = {"launches": ("correlation",)}
"""Columns of ids that a file needs and that tell nothing: a call may share one, or have none."""
_JSON = frozenset(JSON_TEXTS)
"""Columns of JSON texts, of which one text may be written in several ways."""
_TEXTS = (pl.String, pl.Categorical, pl.Enum)


class _Told(NamedTuple):
    """What a name shows of a source: rows, what stands beside them, or why there are none."""

    rows: pl.DataFrame
    beside: Mapping[str, object]
    error: str | None


def compare(original: Trace | Job, copy: Trace | Job, key: Key, said: str) -> pl.DataFrame:
    """Return `name kind rows same difference` of every analysis and table; rows are the original's.

    `said` is the code of the problem that the copy says of itself, which is left aside.
    """
    whole, cut = _patterns(key), _patterns(key, EXAMPLE_LENGTH)
    without = _without_stacks(original)
    rows = []
    for name in show.names():
        patterns = cut if name == "definitions" else whole  # its reasons give names cut short
        before = _aside(_told(original, name), said)
        after = _put_back(_aside(_told(copy, name), said), patterns)
        found = _difference(before, after)
        if found != NONE and _difference(_aside(_told(without, name), said), after) == NONE:
            found = BY_CHOICE
        kind = "analysis" if name in ANALYSES else "table"
        short = name.removeprefix(TABLE)
        rows.append((short, kind, before.rows.height, found in {NONE, BY_CHOICE}, found))
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def _told(source: Trace | Job, name: str) -> _Told:
    try:
        rows = show.frame(source, name, Choice())
        if name not in ANALYSES:
            rows = rows.drop(_RENUMBERED.get(name.removeprefix(TABLE), ()))
        beside = show.about(source, name, Choice()) if name in ANALYSES else {}
    except WorkbenchError as error:
        return _Told(pl.DataFrame(), {}, str(error))
    except Exception as error:  # noqa: BLE001 - an analysis that breaks must break on both
        return _Told(pl.DataFrame(), {}, f"{type(error).__name__}: {error}")
    return _Told(rows, {k: v for k, v in beside.items() if k not in _OWN}, None)


def _without_stacks(source: Trace | Job) -> Trace | Job:
    if isinstance(source, Job):
        return Job(tuple(_bare(t) for t in source.ranks))
    return _bare(source)


def _bare(trace: Trace) -> Trace:
    return replace(trace, build_frames=lambda: of_modules(trace.frames))


Patterns = tuple[list[str], list[str]]


def _patterns(key: Key, longest: int | None = None) -> Patterns:
    """Return pseudonyms and what they stand for, so that none is met as a part of a longer one."""
    pairs = sorted(key.names.items(), key=lambda pair: -len(pair[0]))
    return [p for p, _ in pairs], [o[:longest] for _, o in pairs]


def _aside(told: _Told, said: str) -> _Told:
    """Leave aside what a copy says of itself; the original may be such a copy, too."""
    rows = told.rows
    for column in {"code", "aspect"} & {*rows.columns}:
        rows = rows.filter(pl.col(column).cast(pl.String) != said)
    return told._replace(rows=rows)


def _put_back(told: _Told, patterns: Patterns) -> _Told:
    """Put the names that pseudonyms stand for in their place."""
    rows = told.rows.with_columns(
        change(pl.col(n))
        for n, t in told.rows.schema.items()
        if (change := _change(t, _written(patterns) if n in _JSON else patterns))
    )
    beside = {k: _within(v, patterns) for k, v in told.beside.items()}
    return _Told(rows, beside, told.error and _text(told.error, patterns))


def _written(patterns: Patterns) -> Patterns:
    """Return them with names as they are written within JSON."""
    pseudonyms, names = patterns
    return pseudonyms, [msgspec.json.encode(name).decode()[1:-1] for name in names]


def _change(dtype: pl.DataType, patterns: Patterns) -> Callable[[pl.Expr], pl.Expr] | None:
    if isinstance(dtype, _TEXTS):
        return lambda column: _replaced(column.cast(pl.String), patterns)
    if isinstance(dtype, pl.List) and isinstance(dtype.inner, _TEXTS):
        return lambda column: column.list.eval(_replaced(pl.element().cast(pl.String), patterns))
    return None


def _replaced(column: pl.Expr, patterns: Patterns) -> pl.Expr:
    if not patterns[0]:
        return column
    return column.str.replace_many(*patterns, leftmost=True)


def _text(text: str, patterns: Patterns) -> str:
    replaced = pl.select(_replaced(pl.lit(text), patterns)).item()
    return str(replaced)


def _within(value: object, patterns: Patterns) -> object:
    if isinstance(value, str):
        return _text(value, patterns)
    if isinstance(value, Mapping):
        return {k: _within(v, patterns) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_within(v, patterns) for v in value]
    return value


def _difference(before: _Told, after: _Told) -> str:
    """Say how two answers differ in a few words, `none` when they don't."""
    if before.error != after.error:
        return f"{before.error or 'rows'} before, {after.error or 'rows'} after"[: 2 * _SHORT]
    if before.rows.columns != after.rows.columns:
        return f"columns {sorted({*before.rows.columns} ^ {*after.rows.columns})}"
    if before.rows.height != after.rows.height:
        return f"{before.rows.height} rows before, {after.rows.height} after"
    one, other = _in_order(before.rows), _in_order(after.rows)
    unlike = [n for n in one.columns if not _alike(one[n], other[n])]
    if unlike:
        return f"{', '.join(unlike)}: {_example(one[unlike[0]], other[unlike[0]])}"
    said = [k for k in before.beside if _plain(before.beside[k]) != _plain(after.beside.get(k))]
    return f"said beside it: {', '.join(said)}" if said else NONE


def _example(one: pl.Series, other: pl.Series) -> str:
    pairs = ((x, y) for x, y in zip(one, other, strict=True) if x != y)
    before, after = (str(x)[:_SHORT] for x in next(pairs, ("the same", "the same")))
    return f"{before} before, {after} after"


def _plain(value: object) -> str:
    return repr([*value] if isinstance(value, tuple) else value)


def _in_order(frame: pl.DataFrame) -> pl.DataFrame:
    """Sort rows by all that can't differ by a rounding, texts as texts."""
    frame = frame.with_columns(
        pl.col(n).cast(pl.String) for n, t in frame.schema.items() if isinstance(t, _TEXTS)
    )
    frame = frame.with_columns(_rewritten(frame[n]) for n in frame.columns if n in _JSON)
    keys = [n for n, t in frame.schema.items() if not (t.is_float() or t.is_nested())]
    return frame.sort(keys, nulls_last=True, maintain_order=True) if keys else frame


def _rewritten(column: pl.Series) -> pl.Series:
    """Write JSON texts in one way; what is no JSON stays."""
    texts = column.unique().drop_nulls()
    return column.replace(texts, pl.Series([_plainly(t) for t in texts], dtype=pl.String))


def _plainly(text: str) -> str:
    try:
        return msgspec.json.encode(msgspec.json.decode(text)).decode()
    except (msgspec.DecodeError, RecursionError):
        return text


def _alike(one: pl.Series, other: pl.Series) -> bool:
    if one.dtype.is_float() and other.dtype.is_float():
        close = (one - other).abs() <= _ABSOLUTE + _RELATIVE * one.abs()
        same = close | (one == other) | (one.is_nan() & other.is_nan())
        return bool((same.fill_null(value=False) | (one.is_null() & other.is_null())).all())
    return one.equals(other, null_equal=True)
