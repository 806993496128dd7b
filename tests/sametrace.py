"""Whether two traces hold the same tables, and where they differ if not."""

import polars as pl

from workbench.trace import schema


def differences(one, other):
    """Name the columns that differ; problems may, since faults met in a file stay there."""
    frames = {n: (one.tables[n], other.tables[n]) for n in schema.TABLES if n in one.tables}
    frames["frames"] = (one.frames, other.frames)
    frames["host_steps"] = (one.host_steps, other.host_steps)
    return [
        f"{name}.{column}"
        for name, (a, b) in frames.items()
        if name != "problems"
        for column in ({*a.columns} | {*b.columns})
        if a.height != b.height or not plain(a[column]).equals(plain(b[column]))
    ]


def plain(column):
    """Categories are numbered as they come, so they are compared as text."""
    return column.cast(pl.String) if column.dtype == pl.Categorical() else column
