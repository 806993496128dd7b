"""HTML tables: escaping, units in headings, share bars, cut names, the selected row."""

from html.parser import HTMLParser

import polars as pl

from workbench.analysis import (
    collectives,
    groups,
    idle,
    kernels,
    launches,
    memory_peak,
    modules,
    ops,
    phases,
    recoverable,
    roofline,
    steps,
    trust,
)
from workbench.noting import frame as notes_frame
from workbench.trace.schema import polars_schema
from workbench.views import columns, tables
from workbench.views.tables import Column, html_table


class Parsed(HTMLParser):
    """Reads a table as a browser would: headings, rows of cells, attributes, foreign tags."""

    def __init__(self, text):
        super().__init__()
        self.heads, self.rows, self.cells, self.tags, self.row_attributes = [], [], [], set(), []
        self._into = None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
            self.row_attributes.append(dict(attrs))
        if tag in ("th", "td"):
            self._into = self.heads if tag == "th" else self.rows[-1]
            self._into.append("")
            self.cells.append(dict(attrs))

    def handle_data(self, data):
        if self._into is not None:
            self._into[-1] += data

    def handle_endtag(self, tag):
        if tag in ("th", "td"):
            self._into = None


COLUMNS = (
    Column("name", "kernel"),
    Column("total_ns", "total", "time"),
    Column("count", "count", "count"),
    Column("share", "share", "share"),
)


def frame(**columns):
    base = {"name": ["a", "b"], "total_ns": [12_345_678, 2_000], "count": [1234, 1]}
    return pl.DataFrame(base | {"share": [0.75, None]} | columns)


def test_units_stand_in_headings_and_numbers_share_them():
    table = Parsed(html_table(frame(), COLUMNS))
    assert table.heads == ["kernel", "total ms", "count", "share"]
    assert table.rows[1:] == [["a", "12.346", "1,234", "75.0 %"], ["b", "0.002", "1", "-"]]


def test_the_unit_follows_the_largest_value():
    def head(ns):
        return Parsed(html_table(frame(total_ns=[ns, 1]), COLUMNS)).heads[1]

    assert [head(n) for n in (9, 9_999, 10_000, 9_999_999, 10_000_000, 9 * 10**9, 10**10)] == [
        "total ns", "total ns", "total us", "total us", "total ms", "total ms", "total s",
    ]  # fmt: skip
    assert Parsed(html_table(frame(total_ns=[250, 7]), COLUMNS)).rows[2][1] == "7"


def test_numbers_have_as_many_decimals_as_the_largest_leaves_room_for():
    def cells(*values):
        columns = (Column("x", "samples/s", "number"),)
        return [r[0] for r in Parsed(html_table(pl.DataFrame({"x": values}), columns)).rows[1:]]

    assert cells(0.66, None) == ["0.660", "-"]
    assert cells(123.456, 2.0) == ["123.46", "2.00"]
    assert cells(12_345.67) == ["12,345.7"]


def test_hostile_names_stay_text():
    nasty = "<img src=x onerror=alert(1)>\"'&</td><script>alert(2)</script>" + "y" * 200
    table = Parsed(html_table(frame(name=[nasty, "b"]), COLUMNS))
    assert table.tags == {"table", "thead", "tbody", "tr", "th", "td", "span"}
    name = next(cell for cell in table.cells if cell.get("title"))
    assert name["title"] == name["data-v"] == nasty
    shown = table.rows[1][0]
    assert len(shown) == tables.LONGEST_NAME
    assert shown[:63] == nasty[:63]
    assert shown.endswith("y…" + "y" * 31) or "…" in shown


def test_cut_keeps_both_ends():
    text = "a" * 100 + "b" * 100
    assert tables.cut(text) == "a" * 64 + "…" + "b" * 31
    assert tables.cut("c" * tables.LONGEST_NAME) == "c" * tables.LONGEST_NAME


def test_selected_row_and_share_bar():
    table = Parsed(html_table(frame(), COLUMNS, selected=1))
    assert [r.get("class") for r in table.row_attributes] == [None, None, "wb-selected"]
    assert [r.get("data-row") for r in table.row_attributes] == [None, "0", "1"]
    assert "--wb-bar:75.00%" in [cell.get("style") for cell in table.cells]


def test_where_is_told_only_when_there_are_several():
    described = (Column("name", "kernel"), Column("place", "where", "place"))
    one = frame(rank=[0, 0], device=[0, 0])
    assert Parsed(html_table(one, described)).heads == ["kernel"]
    two = Parsed(html_table(frame(rank=[0, 1], device=[0, None]), described))
    assert [row[1] for row in two.rows[1:]] == ["rank 0 · GPU 0", "rank 1 · CPU"]


def test_nothing_and_too_much():
    assert html_table(frame().clear(), COLUMNS, nothing="<none>") == (
        '<p class="wb-nothing">&lt;none&gt;</p>'
    )
    long = pl.DataFrame({"name": ["k"] * (tables.MOST_ROWS + 5)})
    text = html_table(long, (Column("name", "kernel"),))
    assert text.count("data-row=") == tables.MOST_ROWS
    assert "5 more rows." in text


def test_every_column_list_fits_the_frame_of_its_analysis():
    schemas = {
        columns.KERNELS: kernels.SCHEMA,
        columns.OPS: ops.SCHEMA,
        columns.STEPS: steps.SCHEMA,
        columns.CAUSES: idle.CAUSES_SCHEMA,
        columns.GAPS: idle.SCHEMA,
        columns.LAUNCHES: launches.SCHEMA,
        columns.MODULES: modules.SCHEMA,
        columns.PHASES: phases.SCHEMA,
        columns.PEAK: memory_peak.SCHEMA,
        columns.GROUPS: groups.SCHEMA,
        columns.COLLECTIVES: collectives.SCHEMA,
        columns.PROBLEMS: dict(polars_schema("problems")) | {"rank": pl.Int32()},
        columns.TRUST: trust.SCHEMA,
        columns.NOTES: notes_frame.SCHEMA,
    }
    schemas |= {columns.ROOFLINE: roofline.COLUMNS | roofline.GROUPED}
    schemas |= {columns.RECOVERABLE: recoverable.SCHEMA | {"group": pl.String()}}
    for described, schema in schemas.items():
        assert {c.name for c in described if c.kind != "place"} <= set(schema)
        one = pl.DataFrame({n: [None] for n in schema}, schema=schema)
        assert Parsed(html_table(one, described)).rows[1]


def test_a_spare_column_stands_only_where_some_row_has_a_value():
    described = (Column("name", "kernel"), Column("why", "why unknown", spare=True))
    assert Parsed(html_table(frame(why=[None, None]), described)).heads == ["kernel"]
    table = Parsed(html_table(frame(why=[None, "lost"]), described))
    assert [row[1] for row in table.rows[1:]] == ["-", "lost"]


def test_causes_have_the_names_that_pictures_give_them():
    described = (Column("cause", "cause", "cause"),)
    table = Parsed(html_table(frame(cause=["host_sync", None]), described))
    assert table.rows[1:] == [["host: waiting for the device"], ["-"]]
    assert {c["class"].split()[0] for c in table.cells} == {"wb-text"}
    assert [c["data-v"] for c in table.cells[1:]] == ["host: waiting for the device", ""]


def test_headings_carry_the_column_by_which_a_page_sorts():
    described = (Column("total_ns", "device time", "time"), Column("count", "device", "count"))
    table = Parsed(html_table(frame(), described))
    assert [c["data-name"] for c in table.cells[:2]] == ["total_ns", "count"]
