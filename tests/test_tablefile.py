"""Tables as files: each value exact in each form, and no text that acts."""

import json
import xml.etree.ElementTree as ET
import zipfile

import polars as pl
import pytest

from workbench import tablefile
from workbench.errors import UsageError

BIG = 2**53 + 1
ODD = ["=1+1", "+x", "-x", "@x", "\tx", "a=1", "", None]
FRAME = pl.DataFrame(
    {
        "name": ["=HYPERLINK(1)", "gemm", None],
        "start_ns": [2**53, BIG, -BIG],
        "share": [0.1, float("nan"), None],
        "complete": [True, False, None],
        "dims": [[1, 2], [], None],
    }
)
MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"


def sheet(path, number=1):
    """Return the cells of a sheet as rows of (type, text)."""
    with zipfile.ZipFile(path) as book:
        root = ET.fromstring(book.read(f"xl/worksheets/sheet{number}.xml"))
    return [
        [(c.get("t", "n"), "".join(c.itertext()), c.find(f"{MAIN}f") is not None) for c in row]
        for row in root.iter(f"{MAIN}row")
    ]


def test_excel_keeps_every_number_and_runs_no_text(tmp_path):
    out = tmp_path / "t.xlsx"
    tablefile.write(FRAME, out, {"window": "steps", "ranks": 2})
    head, first, second, third = sheet(out)
    assert [text for _, text, _ in head] == FRAME.columns
    assert first == [
        ("inlineStr", "=HYPERLINK(1)", False),
        ("n", "9007199254740992", False),
        ("n", "0.1", False),
        ("b", "1", False),
        ("inlineStr", "[1, 2]", False),
    ]
    # beyond 2^53 a double would lose a nanosecond
    assert second[1] == ("inlineStr", "9007199254740993", False)
    assert second[2] == ("b", "0", False)  # not a number: an empty cell
    assert third == [("inlineStr", "-9007199254740993", False)]
    about = sheet(out, 2)
    assert [text for _, text, _ in about[1]] == ["meta", "window", "steps"]
    assert [text for _, text, _ in about[2]] == ["meta", "ranks", "2"]


def test_excel_is_the_same_each_time(tmp_path):
    for name in ("a.xlsx", "b.xlsx"):
        tablefile.write(FRAME, tmp_path / name, {})
    with zipfile.ZipFile(tmp_path / "a.xlsx") as a, zipfile.ZipFile(tmp_path / "b.xlsx") as b:
        assert all(a.read(name) == b.read(name) for name in a.namelist())


def test_texts_that_no_cell_holds(tmp_path):
    frame = pl.DataFrame({"name": ["k" * 40_000, "a\x01b"]})
    tablefile.write(frame, tmp_path / "t.xlsx", {})
    _, long, control = sheet(tmp_path / "t.xlsx")
    assert len(long[0][1]) == 32_767
    assert long[0][1].endswith("…")
    assert control[0][1] == "a_x0001_b"


def test_more_rows_than_a_sheet_holds(tmp_path, monkeypatch):
    monkeypatch.setattr(tablefile, "MOST_ROWS", 2)
    with pytest.raises(UsageError, match=r"3 rows and a sheet holds 2; write \.parquet"):
        tablefile.write(FRAME, tmp_path / "t.xlsx", {})
    assert list(tmp_path.iterdir()) == []


def test_csv_reads_back_and_begins_no_formula(tmp_path):
    out = tmp_path / "t.csv"
    frame = pl.DataFrame({"name": pl.Series(ODD, dtype=pl.Categorical), "n": range(BIG, BIG + 8)})
    tablefile.write(frame, out, {})
    back = pl.read_csv(out)
    assert back["name"].to_list() == ["'=1+1", "'+x", "'-x", "'@x", "'\tx", "a=1", "", None]
    assert back["n"].to_list() == list(range(BIG, BIG + 8))


def test_parquet_keeps_texts_as_they_are(tmp_path):
    out = tmp_path / "t.parquet"
    problems = pl.DataFrame({"code": ["cut"], "count": [1]})
    tablefile.write(FRAME, out, {"window": "all"}, problems)
    assert pl.read_parquet(out).equals(FRAME)
    said = pl.read_parquet_metadata(out)
    assert json.loads(said["problems"]) == [{"code": "cut", "count": 1}]


def test_an_empty_table_has_its_heading(tmp_path):
    tablefile.write(FRAME.clear(), tmp_path / "t.xlsx", {})
    assert [text for _, text, _ in sheet(tmp_path / "t.xlsx")[0]] == FRAME.columns
