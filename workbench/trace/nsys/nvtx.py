"""NVTX annotations: push/pop ranges, start/end ranges and marks, each with its domain."""

from __future__ import annotations

import polars as pl

from workbench.trace.families import STEP
from workbench.trace.nsys.ids import UNNAMED, Texts, process_of
from workbench.trace.records import durations
from workbench.trace.sqlite import Database

EVENTS = "NVTX_EVENTS"
FORMS = {59: "nested", 60: "free", 34: "mark", 70: "nested", 71: "free", 65: "mark"}
"""The export's ENUM_NSYS_EVENT_TYPE: push/pop, start/end, mark; the same of imported text."""
DOMAIN = 75
_SILENT = (DOMAIN, 32, 33, 39, 64, 72, 73, 74, 76, 97, 98, 99)
"""Event types that name things and are no annotation."""
_NUMBERS = ("start", "end", "eventType", "globalTid", "textId", "domainId")
_COLUMNS = dict.fromkeys(_NUMBERS, pl.Int64()) | {"text": pl.String()}


def marked(database: Database, texts: Texts) -> pl.DataFrame:
    """Return `name domain form start_ns dur_ns globalTid`; times as recorded, default domain null.

    A range whose end was not recorded is left out and noted: how long it ran is unknown.
    """
    rows = database.read(EVENTS, _COLUMNS).with_columns(pl.col("eventType").fill_null(59))
    name = rows["text"].fill_null(texts.of(rows["textId"]))
    rows = rows.with_columns(name=name)
    found = _with_form(database, rows)
    _note_payloads(database, found)
    found = _with_domain(found, _domain_names(rows))
    return found.select(
        pl.col("name").fill_null(UNNAMED),
        "domain",
        "form",
        "globalTid",
        pl.when(pl.col("form") == "mark").then(0).otherwise(durations()).alias("dur_ns"),
        start_ns="start",
    )


def _with_form(database: Database, rows: pl.DataFrame) -> pl.DataFrame:
    form = pl.col("eventType").replace_strict(FORMS, default=None, return_dtype=pl.String)
    rows = rows.with_columns(form=form)
    unread = rows.filter(pl.col("form").is_null() & ~pl.col("eventType").is_in(_SILENT))
    database.tally.add(
        "unread_annotation",
        unread.height,
        f"{EVENTS}: eventType {unread['eventType'][0]}" if unread.height else "",
        "annotations of this type are not read",
    )
    still_open = pl.col("form").is_in(["nested", "free"]) & pl.col("end").is_null()
    lost = rows.filter(still_open)
    database.tally.add(
        "open_range",
        lost.height,
        f"{EVENTS}: {lost['name'][0]}" if lost.height else "",
        "the end of the range was not recorded, so it is left out",
    )
    return rows.filter(pl.col("form").is_not_null() & ~still_open)


def _note_payloads(database: Database, found: pl.DataFrame) -> None:
    """Say that payloads (NCCL's message sizes) are not known."""
    declared = database.read("NVTX_PAYLOAD_SCHEMAS", {"domainId": pl.Int64()})["domainId"]
    bearing = found.filter(pl.col("domainId").is_in(declared.drop_nulls().unique().implode()))
    database.tally.add(
        "payloads_unread",
        bearing.height,
        f"{EVENTS}: {bearing['name'][0]}" if bearing.height else "",
        "payloads of annotations are not decoded, so sizes and ranks of collectives are unknown",
    )


def _domain_names(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the name of each process's domains: `process domainId named`."""
    made = rows.filter(pl.col("eventType") == DOMAIN)
    return (
        made.select("domainId", process_of(made["globalTid"]).alias("process"), named="name")
        .drop_nulls()
        .unique(["process", "domainId"], keep="first", maintain_order=True)
    )


def _with_domain(found: pl.DataFrame, named: pl.DataFrame) -> pl.DataFrame:
    """Name each annotation's NVTX domain; null in the default one. Steps count in any."""
    found = found.with_columns(process_of(found["globalTid"]).alias("process"))
    found = found.join(named, on=["process", "domainId"], how="left", maintain_order="left")
    unnamed = pl.concat_str(pl.lit("domain "), pl.col("domainId"))
    default = pl.col("domainId").fill_null(0) == 0
    step = pl.col("name").str.contains(f"^(?:{STEP.pattern})$").fill_null(value=False)
    return found.with_columns(
        domain=pl.when(step).then(pl.lit("step")).when(~default).then(pl.coalesce("named", unnamed))
    )
