"""What waits for the device, who made it wait, and what it cost, by hand."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tinytrace import call, kernel, op, step, write

import workbench as wb
from workbench.trace.synthetic import SyntheticSpec, generate

US = 1000


def frame(name, ts, dur, number, parent=0):
    event = op(name, ts, dur) | {"cat": "python_function"}
    return event | {"args": {"Python id": number, "Python parent id": parent}}


@pytest.fixture
def trace(tmp_path):
    """A loss read to the host, then a synchronisation; the host is late with the next kernel.

    train.py(7): step   0 ................................................. 100
    aten::item            10 ...... 42
    cudaMemcpyAsync         12 .. 40          cudaDeviceSynchronize 60..66
    kernel                5 ... 30                                            80..90
    copy to pageable              32..36
    """
    return wb.open(
        write(
            tmp_path,
            [
                frame("train.py(7): step", 0, 100, 1),
                frame("<built-in method item of Tensor object at 0x7f>", 9, 34, 2, 1),
                frame("torch/cuda/__init__.py(975): synchronize", 58, 10, 3, 1),
                op("aten::item", 10, 32),
                op("aten::_local_scalar_dense", 11, 30),
                call("cudaLaunchKernel", 1, 2, 1),
                call("cudaMemcpyAsync", 12, 28, 2),
                call("cudaDeviceSynchronize", 60, 6, 3),
                call("cudaLaunchKernel", 75, 2, 4),
                kernel("gemm", 5, 25, 1),
                kernel("Memcpy DtoH (Device -> Pageable)", 32, 4, 2, cat="gpu_memcpy", bytes=4),
                kernel("next", 80, 10, 4),
            ],
        )
    )


def test_each_wait_with_who_made_it(trace):
    found = wb.sync_calls(trace)
    who = ("kind", "name", "operator", "frame")
    assert found.with_columns(pl.col("kind").cast(pl.String)).select(who).rows() == [
        ("copy", "cudaMemcpyAsync", "aten::_local_scalar_dense", "train.py(7): step"),
        ("sync", "cudaDeviceSynchronize", None, "train.py(7): step"),
    ]
    times = ("start_ns", "dur_ns", "wait_ns", "idle_ns", "idle_after_ns")
    assert [tuple(ns // US for ns in row) for row in found.select(times).rows()] == [
        (12, 28, 22, 6, 20),  # busy 12-30 and 32-36; from 40 to the next call, at 60
        (60, 6, 0, 6, 14),  # nothing ran; from 66 to the next kernel, at 80
    ]


def test_who_waits_most(trace, tmp_path):
    (row, _) = wb.syncs(trace).rows(named=True)
    measured = ("calls", "total_ns", "mean_ns", "max_ns", "wait_ns", "idle_ns", "idle_after_ns")
    assert [row[n] for n in measured] == [1, 28_000, 28_000, 28_000, 22_000, 6_000, 20_000]
    assert wb.syncs(trace)["total_ns"].to_list() == [28_000, 6_000]


def copied(name, call_dur, copy_dur, label):
    """A copy 10-… and its call 0-…."""
    return [
        call(name, 0, call_dur, 1),
        kernel(label, 10, copy_dur, 1, cat="gpu_memcpy", bytes=4),
    ]


@pytest.mark.parametrize(
    ("events", "waits"),
    [
        (copied("cudaMemcpyAsync", 30, 20, "Memcpy DtoH (Device -> Pageable)"), True),
        (copied("cudaMemcpyAsync", 29, 20, "Memcpy DtoH (Device -> Pageable)"), False),
        # that a short pinned copy ended before its call returned is chance
        (copied("cudaMemcpyAsync", 30, 20, "Memcpy DtoH (Device -> Pinned)"), False),
        (copied("hipMemcpyWithStream", 30, 20, "Memcpy DtoH (Device -> Host)"), True),
        (copied("cudaMemcpy", 30, 20, "Memcpy HtoD (Pinned -> Device)"), True),
    ],
)
def test_a_copy_waits_when_its_call_outlasts_it_on_purpose(events, waits, tmp_path):
    assert wb.sync_calls(wb.open(write(tmp_path, events))).height == waits


def test_the_outermost_of_nested_calls_counts(tmp_path):
    events = [
        call("cudaStreamSynchronize", 20, 10, 5),
        call("cuStreamSynchronize", 22, 7, 6),
        call("cudaStreamSynchronize", 20, 10, 7, tid=2),  # another thread waits for itself
        *copied("cudaLaunchKernel", 5, 40, "k"),
    ]
    found = wb.sync_calls(wb.open(write(tmp_path, events)))
    assert found["name"].to_list() == ["cudaStreamSynchronize"] * 2
    assert found["wait_ns"].to_list() == [10 * US] * 2


def test_the_module_is_that_of_the_operator(tmp_path):
    module = frame("nn.Module: Gate_0", 8, 50, 1)
    module["args"]["Python module id"] = 0
    events = [
        module,
        op("aten::nonzero", 10, 30),
        call("cudaStreamSynchronize", 12, 20, 5),
        *copied("cudaLaunchKernel", 5, 30, "k"),
    ]
    (row,) = wb.syncs(wb.open(write(tmp_path, events))).rows(named=True)
    assert (row["operator"], row["module"], row["frame"]) == ("aten::nonzero", "Gate_0", None)


def test_calls_of_the_chosen_steps_and_range(tmp_path):
    # steps 1 and 2 of 50 each, one wait in each and one before them
    events = [step(1, 10, 50), step(2, 60, 50)]
    for number, t in enumerate((0, 20, 70), 1):
        events += [call("cudaLaunchKernel", t, 1, number), kernel("k", t + 2, 5, number)]
        events.append(call("cudaDeviceSynchronize", t + 3, 5, 10 + number))
    trace = wb.open(write(tmp_path, events))
    assert wb.sync_calls(trace)["start_ns"].to_list() == [23 * US, 73 * US]
    assert wb.sync_calls(trace, step=(2, 2))["step"].to_list() == [2]
    assert wb.syncs(trace, window="all")["calls"].to_list() == [3]
    found = wb.sync_calls(trace, window="all", within=(0, 23 * US))
    assert found["start_ns"].to_list() == [3 * US]


def test_the_generator_s_waits_are_found_with_their_operators(tmp_path):
    # each step reads the loss to pinned memory and waits in aten::item, and synchronises a device
    # once and a stream once, as planted
    run = generate(SyntheticSpec(ranks=1))
    run.write(tmp_path)
    found = wb.syncs(wb.open(tmp_path))
    assert set(found.select("name", "operator", "calls").rows()) == {
        ("cudaStreamSynchronize", "aten::_local_scalar_dense", 3),
        ("cudaDeviceSynchronize", None, 3),
        ("cudaStreamSynchronize", None, 3),
    }
    assert (found["wait_ns"] + found["idle_ns"] == found["total_ns"]).all()


spans = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 6)), min_size=1, max_size=8)


@given(spans, spans)
def test_times_equal_brute_force(tmp_path_factory, work, waits):
    events = [
        call("cudaDeviceSynchronize", t, d, 50 + i, tid=1 + i) for i, (t, d) in enumerate(waits)
    ]
    events += [kernel("k", t, d, stream=i) for i, (t, d) in enumerate(work)]
    zero = min(t for t, _ in (*work, *waits))
    trace = wb.open(write(tmp_path_factory.mktemp("syncs"), events), cache=False)
    busy = {u for t, d in work for u in range(t, t + d)}
    held = {u for t, d in waits for u in range(t, t + d)}
    rows = []
    for t, d in sorted(waits):
        wait = sum(u in busy for u in range(t, t + d))
        after = end = t + d
        while after not in busy | held and after < 100:
            after += 1
        rows.append((t - zero, wait, d - wait, after - end if after < 100 else 0))
    names = ("start_ns", "wait_ns", "idle_ns", "idle_after_ns")
    found = [tuple(ns // US for ns in r) for r in wb.sync_calls(trace).select(names).rows()]
    assert sorted(found) == sorted(rows)


def test_host_execution_waits_for_no_device(tmp_path):
    trace = wb.open(write(tmp_path, [op("aten::item", 0, 10)]))
    assert wb.syncs(trace).height == wb.sync_calls(trace).height == 0


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("path", "operator"),
    [
        ("tracelens/h100_owlv2_large_inference.json.gz", "aten::copy_"),
        ("tracelens/mi300_xdit_sd3.5_inference.json.gz", "aten::nonzero"),
        ("nsys/cloverleaf_a100_schema3.13.sqlite", None),
        ("hta/mtia_inference_rank0.json.gz", None),
    ],
)
def test_every_maker_s_waits(corpus, path, operator):
    found = wb.syncs(wb.open(corpus / "traces" / path), window="all")
    assert operator in found["operator"].to_list()
    assert found["total_ns"].sum() > 0
