"""Calls of the CUDA runtime and driver.

Records of synchronisation are not read: they annotate calls that stand here anyway.
"""

from __future__ import annotations

import re

import polars as pl

from workbench.trace.nsys.ids import UNNAMED, Texts
from workbench.trace.records import counted, durations
from workbench.trace.sqlite import Database

TABLES = ("CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_DRIVER")
_COLUMNS = dict.fromkeys(("start", "end", "globalTid", "correlationId", "nameId"), pl.Int64())
_VERSION = re.compile(r"_v\d{4,}$")
"""The CUDA version that a runtime call dates from (`cudaMalloc_v3020`); `_v2` is part of a name."""


def calls(database: Database, texts: Texts) -> pl.DataFrame:
    """Return the calls with `globalTid`; times as recorded."""
    rows = pl.concat([database.read(table, _COLUMNS) for table in TABLES])
    name = texts.of(rows["nameId"]).fill_null(UNNAMED)
    plain = {n: _VERSION.sub("", n) for n in name.unique()}
    return rows.select(
        name.replace_strict(plain, return_dtype=pl.String).alias("name"),
        counted("correlationId", least=1).alias("correlation"),
        durations().alias("dur_ns"),
        "globalTid",
        start_ns="start",
    )
