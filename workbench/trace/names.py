"""Questions to a column of names, asked once a distinct name and not once a row."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl


def matching(names: pl.Series, rule: Callable[[str], bool]) -> pl.Series:
    """Say of each name in a categorical column whether a rule holds; an absent name is False."""
    distinct = names.unique().drop_nulls().cast(pl.String)
    return names.is_in([n for n in distinct if rule(n)]).fill_null(value=False)
