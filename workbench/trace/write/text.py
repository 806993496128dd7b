"""Columns to JSON text, whole columns at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
import polars as pl

from workbench.units import NS_PER_US

_DECIMALS = 3


def us(ns: pl.Expr) -> pl.Expr:
    """Write integer nanoseconds as microseconds with three decimals, exactly."""
    sign = pl.when(ns < 0).then(pl.lit("-")).otherwise(pl.lit(""))
    whole = (ns.abs() // NS_PER_US).cast(pl.String)
    return sign + whole + "." + (ns.abs() % NS_PER_US).cast(pl.String).str.zfill(_DECIMALS)


def quoted(column: pl.Series) -> pl.Series:
    """Write texts as JSON strings; null stays null."""
    return _each(column, lambda text: msgspec.json.encode(text).decode())


def embedded(column: pl.Series) -> pl.Series:
    """Put JSON texts in as they are; what is no JSON becomes a JSON string."""
    return _each(column, _embedded)


def _embedded(text: str) -> str:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return msgspec.json.encode(text).decode()
    return text


def _each(column: pl.Series, write: Callable[[str], str]) -> pl.Series:
    column = column.cast(pl.String)
    distinct = column.drop_nulls().unique()
    written = pl.Series([write(text) for text in distinct], dtype=pl.String)
    return column.replace_strict(distinct, written, default=None, return_dtype=pl.String)


def number(column: pl.Expr) -> pl.Expr:
    """Write numbers; null, infinity and NaN become null."""
    return pl.when(column.is_finite()).then(column).cast(pl.String)


def triple(column: pl.Expr) -> pl.Expr:
    """Write an array of three numbers."""
    parts = [column.arr.get(i).cast(pl.String) for i in range(3)]
    return pl.concat_str(pl.lit("["), pl.concat_str(parts, separator=","), pl.lit("]"))


def fields(values: Mapping[str, pl.Expr]) -> pl.Expr:
    """Write `"name":value`, with commas between, for each value that is not null."""
    parts = [pl.lit(f',"{name}":') + value for name, value in values.items()]
    return pl.concat_str(parts, ignore_nulls=True).str.strip_prefix(",")


def event(values: Mapping[str, pl.Expr], args: Mapping[str, pl.Expr] | None = None) -> pl.Expr:
    """Write one event a row: its fields, and its `args`."""
    if args is None:
        return pl.concat_str(pl.lit("{"), fields(values), pl.lit("}"))
    return pl.concat_str(
        pl.lit("{"), fields(values), pl.lit(',"args":{'), fields(args), pl.lit("}}")
    )
