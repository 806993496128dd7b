"""Ranks that a run folder should have and has not."""

import json

import polars as pl
import pytest

import workbench as wb
from workbench.redaction import redact

EVENT = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 1}


def run_of(folder, ranks, **content):
    for rank in ranks:
        info = {"distributedInfo": {"rank": rank}}
        trace = {"schemaVersion": 1, "traceEvents": [EVENT], **info}
        (folder / f"rank{rank}.trace.json").write_text(json.dumps(trace))
    (folder / "run.json").write_text(json.dumps({"schema_version": 1, **content}))
    problems = wb.open(folder, cache=False).problems
    return problems.filter(pl.col("code") == "missing_ranks")


def test_ranks_that_were_lost_are_named_with_how_the_run_ended(tmp_path):
    content = {"plan": {"ranks": 4}, "status": "failed", "error": "Rank 1 was killed."}
    (row,) = run_of(tmp_path, [0, 2], **content).rows(named=True)
    assert row["count"] == 2
    assert row["first_example"] == ("rank 1, 3 of 4; run.json says how the run ended: failed")


def test_ranks_on_several_machines_count_together(tmp_path):
    (row,) = run_of(tmp_path, [0, 1, 3], plan={"ranks": 2, "nnodes": 2}).rows(named=True)
    assert row["first_example"] == "rank 2 of 4"


@pytest.mark.parametrize(
    "content",
    [
        {"plan": {"ranks": 2}},
        {},
        {"plan": "odd"},
        {"plan": {"ranks": 10**18}},
        {"plan": {"ranks": -3}},
        {"plan": {"ranks": 2}, "status": 7},
    ],
)
def test_nothing_is_said_where_none_is_missing_or_nothing_is_known(tmp_path, content):
    assert run_of(tmp_path, [0, 1], **content).is_empty()


def test_a_copy_without_names_says_it_once_and_as_it_was(tmp_path):
    run, copy = tmp_path / "run", tmp_path / "copy"
    run.mkdir()
    content = {"plan": {"ranks": 2}, "status": "failed", "error": "Rank 1: in secret.py"}
    (before,) = run_of(run, [0], **content)["effect"]
    redact(run, copy, key=tmp_path / "key.json")
    after = wb.open(copy, cache=False).problems.filter(pl.col("code") == "missing_ranks")
    assert after["effect"].to_list() == [before]
