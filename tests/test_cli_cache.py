"""`workbench cache` as a user types it."""

import json

import pytest
from tinytrace import kernel, write
from typer.testing import CliRunner

from workbench import cli
from workbench.errors import UsageError
from workbench.trace import cache
from workbench.trace.open import open_source


@pytest.fixture(autouse=True)
def _place(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "SMALLEST", 0)


@pytest.fixture
def trace(tmp_path):
    return write(tmp_path, [kernel("gemm", 1, 5), kernel("relu", 9, 1)])


def run(*args):
    result = CliRunner().invoke(cli.app, ["cache", *map(str, args)], standalone_mode=False)
    if result.exception:
        raise result.exception
    return result.stdout


def listed():
    return json.loads(run("--json"))


def test_it_lists_what_was_opened_with_folder_total_and_limit(trace, tmp_path):
    assert listed()["rows"] == []
    open_source(trace)
    out = listed()
    (row,) = out["rows"]
    assert (row["name"], row["source"], row["events"]) == ("t.json", str(trace), 2)
    assert row["current"] is True
    assert out["meta"] == {
        "folder": str(tmp_path / "cache" / "traces"),
        "total_bytes": row["size_bytes"],
        "limit_bytes": 10_000_000_000,
        "not_caching": None,
    }
    assert row["size_bytes"] > 1000
    assert "t.json" in run("--csv")
    run("-o", tmp_path / "list.parquet")
    assert (tmp_path / "list.parquet").exists()


def test_clear_one_or_all(trace):
    open_source(trace)
    with pytest.raises(UsageError, match=r"holds nothing of other\.json"):
        run("--clear", "other.json")
    run("--clear", trace)
    assert listed()["rows"] == []
    run("--clear")


def test_a_source_without_clear_is_refused(trace):
    with pytest.raises(UsageError, match="only of use with --clear"):
        run(trace)


def test_off_is_said(trace, monkeypatch):
    monkeypatch.setenv("WORKBENCH_CACHE", "off")
    open_source(trace)
    out = listed()
    assert out["rows"] == []
    assert out["meta"]["folder"] is None
    assert out["meta"]["not_caching"] == "WORKBENCH_CACHE is off"
    with pytest.raises(UsageError, match="there is no cache to clear"):
        run("--clear")
