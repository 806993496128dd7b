"""`workbench show` as a user calls it, and what it can name."""

import json
import subprocess
import sys

import countersfile
import polars as pl
import pytest
from tinytrace import call, kernel, op, step, write
from typer.testing import CliRunner

from workbench import cli, show
from workbench.errors import UsageError, WorkbenchError
from workbench.resources import data
from workbench.trace import schema


@pytest.fixture
def trace(tmp_path):
    return write(
        tmp_path,
        [step(3, 0, 50), op("aten::mm", 5, 20), call("cudaLaunchKernel", 10, 2, 1),
         kernel("gemm", 20, 10, 1), kernel("relu", 32, 3)],
    )  # fmt: skip


def run(*args):
    result = CliRunner().invoke(cli.app, ["show", *map(str, args)], standalone_mode=False)
    if result.exception:
        raise result.exception
    return result.stdout


def test_json_has_rows_meta_and_problems(trace):
    out = json.loads(run(trace, "--window", "all", "--json"))
    assert set(out) == {"rows", "meta", "problems"}
    (row,) = out["rows"]
    # gemm 20-30 and relu 32-35: window 15, busy 13
    assert (row["window_ns"], row["busy_ns"], row["idle_ns"], row["kernels"]) == (
        15_000, 13_000, 2_000, 2,
    )  # fmt: skip
    assert out["meta"]["window"] == "all"
    assert set(out["meta"]) == {
        "format", "ranks", "world_size", "window", "truncated", "producer", "events", "reason",
    }  # fmt: skip


def test_columns_of_the_summary_are_the_contract(trace):
    out = json.loads(run(trace, "--json"))
    assert list(out["rows"][0]) == [
        "rank", "device", "device_kind", "window_ns", "busy_ns", "compute_ns", "communication_ns",
        "overlap_ns", "exposed_communication_ns", "copy_ns", "exposed_copy_ns", "idle_ns",
        "kernels", "collectives", "copies", "steps",
    ]  # fmt: skip


@pytest.mark.parametrize("name", show.names())
def test_every_name_prints(trace, name):
    assert run(trace, name)


def test_sort_top_and_columns(trace):
    text = run(trace, "kernels", "--window", "all", "--sort", "min_ns", "--top", "1", "--columns",
               "name,count", "--csv")  # fmt: skip
    assert text == "name,count\ngemm,1\n"


def test_grouping_by_other_columns(trace):
    text = run(trace, "kernels", "--window", "all", "--by", "family", "--columns", "family,count",
               "--csv")  # fmt: skip
    assert text == "family,count\ngemm,1\nelementwise,1\n"
    rows = json.loads(run(trace, "ops", "--by", "name,input_dims", "--json"))["rows"]
    assert list(rows[0])[:3] == ["rank", "name", "input_dims"]


def test_a_table_with_the_name_of_an_analysis(trace):
    rows = json.loads(run(trace, "table:ops", "--json"))["rows"]
    assert rows[0]["name"] == "aten::mm"
    assert set(rows[0]) == set(schema.TABLES["ops"])


def test_parquet(trace, tmp_path):
    out = tmp_path / "k.parquet"
    run(trace, "activities", "-o", out)
    assert pl.read_parquet(out).height == 2


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["kernel"], "did you mean kernels"),
        (["kernels", "--sort", "totl_ns"], "did you mean total_ns"),
        (["kernels", "--columns", "name,x"], "no column named 'x'"),
        (["syncs", "--device", "0"], "syncs does not take --device"),
        (["activities", "--window", "all"], "does not take --window"),
        (["table:launches", "--device", "0"], "has no device"),
        (["kernels", "--by", "familly"], "did you mean family"),
        (["kernels", "--by", ","], "must be a column to group by"),
        (["steps", "--by", "name"], "does not take --by"),
        (["activities", "--by", "name"], "does not take --by"),
        (["steps", "--step", "x"], "is not A:B"),
        (["steps", "--step", "5:3"], "did you mean 3:5"),
        (["kernels", "--top", "-1"], "no count of rows"),
        (["--rank", "4"], "There is no rank 4; the recording's ranks"),
    ],
)
def test_a_wrong_word_gets_a_sentence(trace, args, words):
    with pytest.raises(WorkbenchError, match=words):
        run(trace, *args)


def test_a_broken_file_ends_in_one_sentence_and_exit_2(tmp_path, monkeypatch, capsys):
    path = tmp_path / "broken.json"
    path.write_text('{"traceEvents": [{"ph"')
    monkeypatch.setattr("sys.argv", ["workbench", "show", str(path)])
    with pytest.raises(SystemExit) as e:
        cli.main()
    assert e.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert "ends early" in captured.err


@pytest.mark.parametrize(("text", "want"), [("3", (3, 3)), ("3:5", (3, 5))])
def test_step_range(text, want):
    assert show.step_range(text) == want


def test_a_range_of_nothing_is_refused():
    with pytest.raises(UsageError, match="A:B"):
        show.step_range(":")


@pytest.mark.parametrize(
    ("name", "option"),
    [("summary", "--rank"), ("ops", "--rank"), ("steps", "--device"), ("activities", "--device")],
)
def test_a_rank_or_device_that_is_not_there_is_refused_by_every_name(trace, name, option):
    with pytest.raises(WorkbenchError, match=r"There is no (rank|device) 7"):
        run(trace, name, option, "7")


def test_the_window_beside_the_rows_is_that_of_the_device(tmp_path):
    # device 0 has a complete step, device 1 none
    events = [step(1, 0, 50), call("cudaLaunchKernel", 5, 1, 1), kernel("a", 10, 5, 1)]
    source = write(tmp_path, [*events, kernel("b", 10, 5, device=1)])
    metas = [json.loads(run(source, "--device", d, "--json"))["meta"] for d in (0, 1)]
    assert [m["window"] for m in metas] == ["steps", "all"]
    assert [m["reason"] is None for m in metas] == [True, False]


def test_odd_names_and_closed_streams_are_no_crash(tmp_path):
    source = write(tmp_path, [kernel("größe→", 0, 5)])
    code = f"import sys; sys.argv = ['workbench', 'show', {str(source)!r}, 'kernels']; "
    code += "from workbench import cli; cli.main()"
    ascii_only = {"PYTHONIOENCODING": "ascii", "PATH": "/usr/bin"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=ascii_only, capture_output=True, check=False
    )
    assert done.returncode == 0
    assert rb"gr\xf6\xdfe\u2192" in done.stdout
    closed = ["sh", "-c", 'exec "$0" -c "$1" >&- 2>&-', sys.executable, code]
    assert subprocess.run(closed, check=False).returncode == 0


def test_a_name_that_is_grouped_by_one_thing(trace):
    sample = data() / "generated_gpu_2ranks"
    rows = json.loads(run(sample, "memory_timeline", "--by", "phase", "--json"))["rows"]
    assert {row["category"] for row in rows} == {"before the recording", "forward"}
    with pytest.raises(WorkbenchError, match="give --by one name"):
        run(trace, "memory_timeline", "--by", "phase,category")


def test_counters_beside_a_recording(trace, tmp_path):
    counts = {countersfile.READ: "64", countersfile.WRITE: "64", countersfile.DURATION: "9"}
    page = countersfile.raw([("gemm", counts), ("nowhere", counts)])
    file = countersfile.write(tmp_path, page)
    found = json.loads(run(trace, "counters", "--counters", file, "--json"))
    assert {row["kernel"] for row in found["rows"]} == {"gemm", "nowhere"}
    (match,) = found["meta"]["matches"]
    assert (match["launches"], match["unmatched_names"]) == (2, "nowhere")
    assert found["meta"]["reason"] is None
    assert "--counters" in json.loads(run(trace, "counters", "--json"))["meta"]["reason"]
    with pytest.raises(WorkbenchError, match="does not take --counters"):
        run(trace, "kernels", "--counters", file)
    with pytest.raises(WorkbenchError, match="holds no hardware counters"):
        run(trace, "counters", "--counters", trace)


def test_counters_of_a_file_of_their_own(tmp_path):
    page = countersfile.raw([("k", {countersfile.READ: "64", countersfile.WRITE: "0"})])
    file = countersfile.write(tmp_path, page)
    (row,) = json.loads(run(file, "counters", "--json"))["rows"]
    assert (row["memory_bytes"], row["operator"]) == (64, None)


def test_roofs_of_a_part_that_the_user_names(tmp_path):
    source, mine = data() / "gpt_tiny_cpu", tmp_path / "mine.json"
    named = json.loads(run(source, "roofline", "--hardware", "NVIDIA H200", "--json"))
    assert {r["roof_source"] for r in named["rows"]} == {"data sheet: H200-SXM-141GB"}
    mine.write_text('{"peaks": {"fp32_vector_tflops": 1}, "memory": {"gb_per_s": 20}}')
    given = json.loads(run(source, "roofline", "--hardware", mine, "--json"))
    product = next(r for r in given["rows"] if r["operator"] == "aten::mm")
    assert (product["peak_flops_per_s"], product["memory_bytes_per_s"]) == (1e12, 2e10)
    with pytest.raises(UsageError, match="did you mean H100-PCIe-80GB"):
        run(source, "roofline", "--hardware", "H100-PCIe")
    for name in ("overlap", "ops"):
        with pytest.raises(UsageError, match="does not take --hardware"):
            run(source, name, "--hardware", "T4")
