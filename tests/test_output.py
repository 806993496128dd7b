import json

import polars as pl
import pytest

from workbench import output
from workbench.errors import UsageError

FRAME = pl.DataFrame(
    {
        "name": ["gemm", None, "[red]copy[/red]\x1b[31m"],
        "kind": pl.Series(["kernel", "copy", None], dtype=pl.Categorical()),
        "dur_ns": [1_234_567, 999, None],
        "moved_bytes": [2_500_000_000, 0, None],
        "big": pl.Series([2**63 + 1, 0, None], dtype=pl.UInt64()),
        "share": [0.123456, float("nan"), None],
        "dims": [[1, 2], [], None],
        "ok": [True, False, None],
    }
)


def test_long_texts_can_be_cut():
    frame = pl.DataFrame({"name": ["abcdef", "abcd", None], "n": [1, 2, 3], "to": ["abcde"] * 3})
    lines = output.text_table(frame, width=80, longest=4).splitlines()
    assert [line.split()[0] for line in lines] == ["name", "abc…", "abcd", "-"]
    assert [line.split()[2] for line in lines] == ["to", "abc…", "abc…", "abc…"]


def test_text_has_units_in_cells_and_headers_without_suffix():
    lines = output.text_table(FRAME, width=200).splitlines()
    words = [line.split() for line in lines]
    assert words[0] == ["name", "kind", "dur", "moved", "big", "share", "dims", "ok"]
    assert words[1][:6] == ["gemm", "kernel", "1.235", "ms", "2.5", "GB"]
    assert words[1][6:] == ["9223372036854775809", "12.3", "%", "[1,", "2]", "yes"]
    assert words[2] == ["-", "copy", "999", "ns", "0", "B", "0", "-", "[]", "no"]
    assert words[3] == ["[red]copy[/red]\\x1b[31m", "-", "-", "-", "-", "-", "-", "-"]


def test_a_notebook_shows_a_table_once(monkeypatch, capsys):
    shown = []
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr("IPython.display.display", lambda *what, **_: shown.append(what))
    frame = pl.DataFrame({"n": [1]})
    assert output.text_table(frame, width=80).split() == ["n", "1"]
    output.emit(frame, meta={})
    assert capsys.readouterr().out.split() == ["n", "1"]
    assert shown == []


def test_numbers_are_aligned_to_the_right():
    lines = output.text_table(pl.DataFrame({"n": [1, 100], "s": ["a", "b"]}), width=80)
    assert [line.rstrip() for line in lines.splitlines()] == ["  n  s", "  1  a", "100  b"]


def test_a_wide_table_is_cut_into_blocks_and_no_column_is_lost():
    frame = pl.DataFrame({f"column_{i}": [i] for i in range(12)})
    lines = output.text_table(frame, width=40).splitlines()
    assert max(map(len, lines)) <= 40
    # 8 + 3 x (2 + 8) = 38 columns of the terminal, so column 0 with three more a block.
    headers = [line.split() for line in lines if "column" in line]
    assert headers == [
        ["column_0", "column_1", "column_2", "column_3"],
        ["column_0", "column_4", "column_5", "column_6"],
        ["column_0", "column_7", "column_8", "column_9"],
        ["column_0", "column_10", "column_11"],
    ]


def test_a_long_name_is_folded_and_kept_whole():
    text = output.text_table(pl.DataFrame({"name": ["x" * 150], "n": [1]}), width=40)
    assert text.count("x") == 150
    assert max(map(len, text.splitlines())) <= 40


def test_an_empty_table_says_so():
    assert "(no rows)" in output.text_table(FRAME.clear(), width=100)
    assert "(no rows)" in output.text_table(pl.DataFrame(), width=100)


def test_json_is_one_object_exact_and_strict(capsys):
    problems = pl.DataFrame({"code": ["x"], "count": [2]})
    output.emit(FRAME, meta={"window": "steps", "pair": (1, 2)}, problems=problems, json=True)
    printed = capsys.readouterr()
    whole = json.loads(printed.out, parse_constant=pytest.fail)
    assert printed.err == ""
    assert whole["meta"] == {"window": "steps", "pair": [1, 2]}
    assert whole["problems"] == [{"code": "x", "count": 2}]
    assert whole["rows"][0] == {
        "name": "gemm",
        "kind": "kernel",
        "dur_ns": 1_234_567,
        "moved_bytes": 2_500_000_000,
        "big": 2**63 + 1,
        "share": 0.123456,
        "dims": [1, 2],
        "ok": True,
    }
    assert whole["rows"][1]["share"] is None
    assert set(whole["rows"][2].values()) == {None, "[red]copy[/red]\x1b[31m"}


def test_text_keeps_notes_off_standard_output(capsys):
    problems = pl.DataFrame(
        {"code": ["cut"], "count": [1], "first_example": ["byte 7"], "effect": ["tail lost"]}
    )
    output.emit(pl.DataFrame({"a": [1]}), meta={"window": "all", "reason": None}, problems=problems)
    printed = capsys.readouterr()
    assert [line.strip() for line in printed.out.splitlines()] == ["a", "1"]
    assert printed.err == "window: all\nproblem cut (1): tail lost; first: byte 7\n"


def test_csv_reads_back(capsys):
    output.emit(FRAME.drop("name"), meta={}, csv=True)
    back = pl.read_csv(capsys.readouterr().out.encode())
    assert back["dur_ns"].to_list() == [1_234_567, 999, None]
    assert back["dims"].to_list() == ["[1, 2]", "[]", None]


def test_parquet_holds_the_frame_with_meta_and_problems(tmp_path, capsys):
    target = tmp_path / "t.parquet"
    output.emit(FRAME, meta={"window": "steps"}, out=target)
    assert pl.read_parquet(target)["dur_ns"].to_list() == [1_234_567, 999, None]
    assert json.loads(pl.read_parquet_metadata(target)["meta"]) == {"window": "steps"}
    assert capsys.readouterr().out == ""
    assert [entry.name for entry in tmp_path.iterdir()] == ["t.parquet"]


@pytest.mark.parametrize(
    "name", ["t.txt", "t", "missing/t.parquet", "missing/t.csv", "missing/t.xlsx"]
)
def test_a_file_that_cannot_be_written_is_one_sentence(tmp_path, name):
    with pytest.raises(UsageError):
        output.emit(FRAME, meta={}, out=tmp_path / name)


def test_two_forms_at_once_are_refused():
    with pytest.raises(UsageError, match="exclude each other"):
        output.emit(FRAME, meta={}, json=True, csv=True)
