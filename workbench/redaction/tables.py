"""Tables of a trace with their texts renamed: one declared rule for each column of text.

Numbers, times and what is of a closed set (`Enum`) stay. A column of text without a rule is an
error, so that a new one is thought about before it can leave.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import numpy as np
import polars as pl

from workbench.redaction import pseudonyms as kinds
from workbench.redaction.pseudonyms import Kind, Names
from workbench.trace import nesting, schema
from workbench.trace.core import Trace
from workbench.trace.nesting import NONE

_JSON_ERRORS = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)
_DEEPEST = 100


def _json(text: str, names: Names) -> str:
    """Rename the texts in a JSON text; one in which all are public stays as it is written."""
    try:
        held = msgspec.json.decode(text)
        changed = _within(held, names, 0)
    except _JSON_ERRORS:
        return names.one(kinds.VALUE, text)
    return text if changed == held else msgspec.json.encode(changed).decode()


def _within(value: Any, names: Names, depth: int) -> Any:
    if depth > _DEEPEST:
        raise RecursionError
    if isinstance(value, str):
        return _value(value, names)
    if isinstance(value, list):
        return [_within(v, names, depth + 1) for v in value]
    if isinstance(value, dict):
        return {_value(k, names): _within(v, names, depth + 1) for k, v in value.items()}
    return value


def _value(text: str, names: Names) -> str:
    """Rename a value; of types that older profilers join by semicolons, each."""
    parts = text.split(";\r\n")
    return ";\r\n".join(names.one(kinds.VALUE, part) for part in parts)


Rule = Kind | Callable[[str, Names], str]
RULES: Mapping[str, Mapping[str, Rule]] = {
    "activities": {"family": kinds.VALUE, "name": kinds.KERNEL},
    "launches": {"name": kinds.CALL},
    "ops": {
        "name": kinds.OPERATOR,
        "module": kinds.MODULE,
        "input_dims": _json,
        "input_types": _json,
        "input_strides": _json,
        "concrete_inputs": _json,
        "kernel_backend": kinds.VALUE,
        "kernel_file": kinds.FILE,
        "kernel_hash": kinds.VALUE,
    },
    "ranges": {"name": kinds.RANGE, "domain": kinds.DOMAIN},
    "steps": {},
    "collectives": {
        "name": kinds.VALUE,
        "requested": kinds.VALUE,
        "group": kinds.GROUP,
        "members": _json,
        "dtype": kinds.VALUE,
    },
    "frames": {"name": kinds.MODULE, "module": kinds.MODULE},
    "memory": {"category": kinds.VALUE, "site": kinds.FILE},
    "segments": {"kind": kinds.VALUE, "pool": _json},
    "counters": {"name": kinds.COUNTER, "unit": kinds.UNIT},
    "kernel_counters": {
        "name": kinds.COUNTER,
        "unit": kinds.UNIT,
        "source": kinds.COUNTER,
    },
    "dependencies": {},
    "problems": {
        "code": kinds.PHRASE,
        "first_example": kinds.EXAMPLE,
        "effect": kinds.PHRASE,
    },
}
"""By table and column of text, which names stand there."""


def redacted(trace: Trace, names: Names) -> tuple[dict[str, pl.DataFrame], pl.DataFrame]:
    """Return the tables of a trace renamed, and its Python frames: calls of modules alone."""
    tables = {name: _table(name, frame, names) for name, frame in trace.tables.items()}
    return tables, _table("frames", of_modules(trace.frames), names)


def _table(table: str, frame: pl.DataFrame, names: Names) -> pl.DataFrame:
    rules = dict(RULES[table])
    if table == "activities" and (frame["source"] == "host").any():
        rules["name"] = kinds.OPERATOR  # a trace is host execution or none of it is
    texts = [c for c, dtype in frame.schema.items() if dtype in {pl.String(), pl.Categorical()}]
    return frame.with_columns(_column(frame[c], rules[c], names) for c in texts)


def _column(column: pl.Series, rule: Rule, names: Names) -> pl.Series:
    """Rename each distinct text of a column once."""
    distinct = column.unique().drop_nulls().cast(pl.String).to_list()
    if isinstance(rule, Kind):
        new = names.several(rule, distinct)
    else:
        new = {text: rule(text, names) for text in distinct}
    changed = {old: text for old, text in new.items() if text != old}
    if not changed:
        return column
    texts = column.cast(pl.String).replace(list(changed), list(changed.values()))
    return texts.cast(column.dtype).alias(column.name)


def of_modules(frames: pl.DataFrame) -> pl.DataFrame:
    """Return the calls of modules among Python frames, each below the next module call above it."""
    is_module = frames["module"].is_not_null().to_numpy()
    parent = nesting.ids(frames["parent"])
    above = np.append(nesting.nearest(parent, is_module), NONE)[parent]
    number = np.append(np.cumsum(is_module) - 1, NONE)
    ids = pl.Series(number[above[is_module]], dtype=pl.Int64)
    return frames.filter(pl.Series(is_module, dtype=pl.Boolean)).with_columns(
        id=pl.int_range(pl.len(), dtype=schema.ID),
        parent=ids.set(ids == NONE, None).cast(schema.ID),
    )
