"""Operators by the chain that calls them, worked out by hand."""

import polars as pl
import pytest
from tinytrace import call, kernel, op, step, write

import workbench as wb
from workbench.resources import data

US = 1000


@pytest.fixture
def trace(tmp_path):
    """linear twice and mul; mm is called by linear and by itself.

    thread 1   linear 0-40 (mm 10-20), linear 50-90 (mm 60-75), mm 100-110, mul 120-125
    device     10 us for the first mm, 20 for the second, 5 for the bare one, 3 for linear itself
    """
    events = [
        op("linear", 0, 40), op("mm", 10, 10), call("cudaLaunchKernel", 12, 2, 1),
        op("linear", 50, 40), op("mm", 60, 15), call("cudaLaunchKernel", 62, 2, 2),
        call("cudaLaunchKernel", 80, 2, 3), op("mm", 100, 10), call("cudaLaunchKernel", 102, 2, 4),
        op("mul", 120, 5), kernel("gemm", 20, 10, 1), kernel("gemm", 70, 20, 2),
        kernel("bias", 95, 3, 3), kernel("gemm", 110, 5, 4),
    ]  # fmt: skip
    return wb.open(write(tmp_path, events))


def test_one_row_for_each_chain(trace):
    found = wb.op_tree(trace).select(
        "path", "depth", "calls", "self_device_ns", "total_device_ns", "total_host_ns"
    )
    assert found.rows() == [
        ("linear", 0, 2, 3 * US, 33 * US, 80 * US),
        ("linear/mm", 1, 2, 30 * US, 30 * US, 25 * US),
        ("mm", 0, 1, 5 * US, 5 * US, 10 * US),
        ("mul", 0, 1, 0, 0, 5 * US),
    ]
    assert wb.op_tree(trace)["device_share"].to_list() == pytest.approx(
        [33 / 38, 30 / 38, 5 / 38, 0]
    )


def test_a_range_keeps_what_starts_in_it(trace):
    # from 55 on: the second linear began before, so its mm stands by itself beside the bare one
    found = wb.op_tree(trace, within=(55 * US, 200 * US)).select("path", "calls")
    assert ("mul", 1) in found.rows()
    assert found.filter(pl.col("path").str.ends_with("mm"))["calls"].sum() == 2


def test_names_add_up_to_their_rows_in_ops():
    job = wb.open(data() / "generated_gpu_2ranks")
    columns = ["calls", "self_device_ns", "total_device_ns", "self_host_ns", "total_host_ns"]
    by_name = wb.op_tree(job).group_by("rank", "name").agg(pl.col(columns).sum())
    known = wb.ops(job).select("rank", "name", *columns)
    assert by_name.sort("rank", "name").equals(known.sort("rank", "name"))


def test_a_step_without_its_operators_parents(tmp_path):
    # the outer operator begins in step 0, its child in step 1, of which alone the rows are
    events = [step(0, 0, 50), step(1, 50, 50), op("outer", 40, 30), op("inner", 55, 10),
              call("cudaLaunchKernel", 10, 1, 1), kernel("a", 15, 5, 1),
              call("cudaLaunchKernel", 56, 1, 2), kernel("b", 60, 5, 2)]  # fmt: skip
    found = wb.op_tree(wb.open(write(tmp_path, events)), step=(1, 1))
    assert found.select("path", "depth").rows() == [("inner", 0)]


@pytest.mark.corpus
@pytest.mark.parametrize(
    "name",
    [
        "tracelens/mi300_qwen1.5_0.5b_inference.json.gz",
        "tracelens/h100_bert_small_inference.json.gz",
        "nsys/fuser_h100_schema3.16.sqlite",
        "hta/cpu_only_rank34_of_300.json.gz",
    ],
)
def test_other_makers_add_up(corpus, name):
    trace = wb.open(corpus / "traces" / name)
    found, known = wb.op_tree(trace), wb.ops(trace)
    assert found.height >= known.height
    for column in ("calls", "self_device_ns", "total_host_ns"):
        assert found[column].sum() == known[column].sum()


def test_graphs_without_times_have_no_rows(tmp_path):
    assert wb.op_tree(wb.open(write(tmp_path, [kernel("k", 0, 5)]))).is_empty()
