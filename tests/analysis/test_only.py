"""Part of the work alone, worked out by hand on one step of two operators and a bare launch."""

import json

import partstrace
import pytest
from pycalls import module
from tinytrace import call, kernel, op, write

import workbench as wb
from workbench.analysis import only
from workbench.errors import UsageError

US = 1000


@pytest.fixture
def source(tmp_path):
    return wb.open(partstrace.made(tmp_path))


STEP = {"step": (1, 1)}


def kernels(source, **part):
    found = wb.kernels(source, only=wb.Only(**part), **STEP)
    return {name: ns // US for name, ns in found.select("name", "total_ns").rows()}


def ops(source, **part):
    found = wb.ops(source, only=wb.Only(**part), **STEP)
    columns = ("name", "calls", "self_device_ns", "total_device_ns")
    return {n: (c, a // US, b // US) for n, c, a, b in found.select(columns).rows()}


def test_which_kernels_an_operator_launched_itself_or_by_what_it_calls(source):
    assert kernels(source) == {"gemm": 30, "vector": 10, "lonely": 5}
    assert kernels(source, operator="aten::linear") == {"gemm": 30, "vector": 7}
    assert kernels(source, operator="aten::mm") == {"gemm": 30}
    assert kernels(source, operator="aten::relu") == {"vector": 10}
    assert kernels(source, operator="aten::sum") == {}


def test_which_operators_launched_a_kernel(source):
    assert ops(source, kernel="vector") == {"aten::relu": (2, 10, 10), "aten::linear": (1, 0, 7)}
    assert ops(source, kernel="gemm") == {"aten::mm": (2, 30, 30), "aten::linear": (2, 0, 30)}
    assert ops(source, kernel="lonely") == {}


def test_all_that_is_chosen_must_hold(source):
    assert kernels(source, operator="aten::linear", kernel="vector") == {"vector": 7}
    assert kernels(source, operator="aten::linear", rank=3) == {}
    share = wb.kernels(source, only=wb.Only(operator="aten::linear"), **STEP)["share"]
    assert share.to_list() == [30 / 37, 7 / 37]


def test_the_window_stays_and_busy_time_is_of_the_part(source):
    # gemm 40-60 and vector 55-62 overlap: the union of linear's work is 10 + 22
    row = wb.summary(source, only=wb.Only(operator="aten::linear"), **STEP).row(0, named=True)
    assert (row["window_ns"], row["busy_ns"], row["idle_ns"]) == (80 * US, 32 * US, 48 * US)
    assert row["kernels"] == 3


def test_a_point_keeps_all_the_time_of_its_operator(source):
    whole = wb.roofline(source, **STEP)
    part = wb.roofline(source, only=wb.Only(kernel="gemm"), **STEP)
    assert part["operator"].to_list() == ["aten::mm", "aten::mm"]
    columns = ("operator", "shapes", "time_ns", "ratio_to_roof", "share_of_device_time")
    of_mm = whole.filter(operator="aten::mm").select(columns)
    assert part.select(columns).equals(of_mm)
    shapes = dict(whole.filter(operator="aten::mm").select("time_ns", "shapes").rows())
    assert kernels(source, point=("operator", "aten::mm", shapes[20 * US])) == {"gemm": 20}
    assert kernels(source, point=["operator", "aten::mm", shapes[10 * US]]) == {"gemm": 10}
    assert kernels(source, point=("kind", "matmul", None)) == {"gemm": 30}
    lonely = wb.recoverable(source, only=wb.Only(kernel="lonely"), **STEP)
    assert lonely.select("operator", "time_ns").rows() == [(None, 5 * US)]


def test_calls_that_launched_some_of_it(source):
    found = wb.launches(source, only=wb.Only(kernel="vector"), **STEP)
    assert found.select("name", "calls", "execution_total_ns").rows() == [
        ("cudaLaunchKernel", 2, 10 * US)
    ]


def test_operators_of_one_device(tmp_path):
    events = [
        op("aten::copy_", 1, 4), call("a", 2, 1, 1), call("b", 3, 1, 2),
        op("aten::mm", 6, 4), call("c", 7, 1, 3),
        kernel("k", 20, 10, 1, device=0), kernel("k", 20, 5, 2, device=1),
        kernel("k", 40, 3, 3, device=1),
    ]  # fmt: skip
    source = wb.open(write(tmp_path, events))
    found = wb.ops(source, device=1).select("name", "self_device_ns").rows()
    assert found == [("aten::copy_", 5 * US), ("aten::mm", 3 * US)]
    found = wb.ops(source, device=0).select("name", "self_device_ns").rows()
    assert found == [("aten::copy_", 10 * US)]


def test_what_ran_in_a_module(tmp_path):
    # Net_0 0-40 { Block_0 1-10 { mm 2-6 }, relu 20-24 }, sum 50-54 outside
    events = [
        module("Net_0", 0, 40), module("Block_0", 1, 9),
        op("aten::mm", 2, 4), call("cudaLaunchKernel", 3, 1, 1),
        op("aten::relu", 20, 4), call("cudaLaunchKernel", 21, 1, 2),
        op("aten::sum", 50, 4), call("cudaLaunchKernel", 51, 1, 3),
        kernel("gemm", 60, 10, 1), kernel("vector", 70, 3, 2), kernel("reduce", 80, 2, 3),
    ]  # fmt: skip
    source = wb.open(write(tmp_path, events))

    def names(**part):
        return wb.kernels(source, only=wb.Only(**part))["name"].to_list()

    assert names(module="Net_0") == ["gemm", "vector"]
    assert names(module="Net_0/Block_0") == ["gemm"]
    assert names(module="") == ["reduce"]
    assert names(module="Net") == []
    found = wb.modules(source, only=wb.Only(kernel="gemm"))
    assert found.select("path", "total_device_ns", "device_share").rows() == [
        ("Net_0", 10 * US, 1.0),
        ("Net_0/Block_0", 10 * US, 1.0),
    ]


def test_it_writes_itself_as_the_call_that_makes_it():
    part = wb.Only(kernel="gemm", point=["kind", "matmul", None], rank=0)
    assert repr(part) == "Only(kernel='gemm', point=('kind', 'matmul', None), rank=0)"
    assert wb.Only(**json.loads(json.dumps(part.given()))) == part
    assert part.without("point") == wb.Only(kernel="gemm", rank=0)
    assert not wb.Only(kernel="gemm", rank=0).without("kernel")
    assert wb.Only(module="", rank=1)


def test_what_can_not_be_chosen_is_said():
    with pytest.raises(UsageError, match="did you mean kind"):
        wb.Only(point=("kinds", "matmul", None))
    with pytest.raises(UsageError, match=r"point is \(by, name, shapes\)"):
        wb.Only(point=("kind",))
    assert only.parsed(["kernel=a=b", "module=Net_0"]) == wb.Only(kernel="a=b", module="Net_0")
    with pytest.raises(UsageError, match="give one of them"):
        only.parsed(["gemm"])
    with pytest.raises(UsageError, match="give one of them"):
        only.parsed(["rank=0"])
