"""Values on breakdown, idle and overlap that other tools' own tests assert, on their own files.

All of HTA's, Kineto's and TraceLens's that the corpus' catalogue lists are here, but for:

- TraceLens' `mi300_jax_conv_minimal`: the source keeps two recordings of that name and one
  reference, and which belongs to which is not known; this recording's figures are others.
- Kineto's estimated SM efficiency and achieved occupancy: rates of kernels, not times; they need
  `blocks per SM`, which tables do not keep. Its memory and Tensor Core figures are other subjects.
- Kineto's `gpu_metrics_expected`: the test that compares it is commented out at its source.
- HTA's critical path, stack filters, counters, sequences, correlations and memory timeline: other
  subjects; that queues and bandwidths of a host's recording are empty: `test_launch_and_queue.py`.
- nsys-ai's step time of 598.52 ms: twice a range of the profile that its user types.
"""

import csv

import polars as pl
import pytest

import workbench as wb
from workbench.analysis.rules import hta, nsight, tensorboard, tracelens
from workbench.analysis.rules.account import View
from workbench.analysis.window import select

pytestmark = pytest.mark.corpus
US, MS = 1_000, 1_000_000


@pytest.fixture
def recorded(corpus):
    def opened(name):
        folder = corpus / ("cases" if name.startswith("K") else "traces")
        return wb.open(next(folder.glob(f"{name}.*")))

    return opened


# ---- TraceLens ------------------------------------------------------------------------------

TIMELINES = (
    "h100_bert_small_inference", "h100_owlv2_large_inference", "h100_qwen1.5_0.5b_inference",
    "mi210_gpu_only", "mi300_bert_small_inference", "mi300_qwen1.5_0.5b_inference",
    "mi300_resnet_ddp_act_checkpoint_rank0_of_8", "mi300_sglang_qwen3_8b_decode",
    "mi300_torch_compile_triton", "mi300_vllm_piecewise_graph_execution",
    "mi300_xdit_sd3.5_inference",
)  # fmt: skip
TYPES = {
    "computation_time": "compute",
    "exposed_comm_time": "exposed_communication",
    "exposed_memcpy_time": "exposed_copy",
    "busy_time": "busy",
    "idle_time": "idle",
    "total_time": "window",
    "total_comm_time": "communication",
    "total_memcpy_time": "copy",
}


@pytest.mark.parametrize("name", TIMELINES)
def test_tracelens_gpu_timeline(corpus, recorded, name):
    """To 0.1 us: the reference is made with doubles of microseconds (the catalogue allows 1 us)."""
    trace = recorded(f"tracelens/{name}")
    expected = corpus / "traces" / "tracelens" / "expected" / name / "gpu_timeline.csv"
    with expected.open() as f:
        rows = list(csv.DictReader(f))
    assert len(rows) in {8, 16}
    for row in rows:
        block = {"True": True, "False": False}.get(row.get("is_recompute"))
        found = tracelens.timeline(trace, recomputed=block)
        want = float(row["time ms"]) * MS
        assert found[TYPES[row["type"]]] == pytest.approx(want, abs=100), row
        share = found[TYPES[row["type"]]] / found["window"]
        assert 100 * share == pytest.approx(float(row["percent"]), abs=1e-3), row


# ---- Kineto's TensorBoard plugin ------------------------------------------------------------

STEPS = {
    5: (187948, 98598, 1941, 90, 2796, 69317, 14091, 1115),
    6: (175153, 98570, 1947, 89, 2762, 57669, 12968, 1148),
    7: (179733, 98596, 1931, 91, 2877, 61257, 13768, 1213),
    8: (174564, 98623, 1938, 89, 2841, 56453, 13420, 1200),
    9: (182172, 98504, 1937, 87, 2788, 62690, 15025, 1141),
    10: (165983, 98641, 1798, 88, 3381, 48185, 12773, 1117),
}
AVERAGES = (177592, 98589, 1915, 89, 2908, 59262, 13674, 1156)
COLUMNS = ("dur_ns", "kernel", "memcpy", "memset", "runtime", "data_loader", "cpu_op", "other")


def test_tensorboard_overview(recorded):
    found = tensorboard.overall(recorded("kineto/resnet50_v100_num_workers_0_2021"))
    rows = found.select("step", *COLUMNS).rows()
    assert {step: tuple(ns // US for ns in rest) for step, *rest in rows} == STEPS
    assert found["communication"].sum() == 0
    assert tuple(round(found[c].mean() / US) for c in COLUMNS) == AVERAGES


def test_tensorboard_gpu_utilization(recorded):
    trace = recorded("kineto/resnet50_v100_num_workers_0_2021")
    busy, whole = tensorboard.gpu_utilisation(trace.activities, tensorboard.device_steps(trace))
    assert round(100 * busy / whole, 2) == 55.51


# ---- HTA ------------------------------------------------------------------------------------


def test_hta_drops_the_last_step(recorded):
    trace = recorded("hta/ns_resolution_resnet_ddp_v100")
    kept = hta.gpu_events(trace)
    assert kept.height == 4876
    mirrored = trace.ranges.filter(pl.col("domain") == "device")
    assert mirrored["name"].n_unique() == 3


def test_hta_keeps_everything_without_steps(recorded):
    # 1313 hardware rows of MTIA, 339 of them events that wait or are recorded
    trace = recorded("hta/mtia_inference_rank0")
    assert trace.host_steps.height == 0
    assert hta.gpu_events(trace).height == trace.activities.height + 339 == 1313


def test_hta_finds_synchronisation_without_a_stream(recorded):
    waits = recorded("hta/cuda_event_sync_a100").ranges.filter(domain="cuda_sync")
    named = waits["name"].cast(pl.String).is_in(["Event Sync", "Context Sync"])
    assert waits.filter(named & waits["stream"].is_null()).height == 3


def test_hta_finds_no_gpu_event_in_a_host_recording(recorded):
    for name in ("hta/odd_rank_non_gpu", "hta/odd_rank_not_found"):
        trace = recorded(name)
        assert not hta.gpu_events(trace).height
        assert "IndexError" in hta.stops_because(hta.events(trace))


def changed(a, b):
    """How many names two frames of counts share, and how many the second adds and lacks."""
    both = set(a["name"]) & set(b["name"])
    return len(both), len(set(b["name"]) - both), len(set(a["name"]) - both)


def test_hta_trace_comparison_at_step_1010(recorded):
    traces = [recorded(f"hta/trace_compare_{n}_rank1") for n in ("base", "test")]
    base, test = (hta.operations_of_step(t, 1010) for t in traces)
    on = lambda where, frame: frame.filter(device=where)  # noqa: E731
    assert (on("CPU", base)["count"].sum(), on("GPU", base)["count"].sum()) == (6, 1)
    durations = dict(on("CPU", base).select("name", pl.col("total_ns") // US).rows())
    assert durations == {
        "ProfilerStep#1010": 122149,
        "aten::as_strided": 0,
        "aten::empty": 0,
        "cudaEventQuery": 4,
        "cudaLaunchKernel": 4,
        "nccl:all_reduce": 67,
    }
    assert changed(on("CPU", base), on("CPU", test)) == (5, 3, 1)
    assert changed(on("GPU", base), on("GPU", test)) == (0, 0, 1)
    rows = wb.compare(*traces, step=(1010, 1010)).filter(kind="host")
    added = rows.filter(pl.col("a_count") == 0)["name"].to_list()
    assert sorted(added) == ["AddmmBackward0", "All2All_Pooled_Req", "CatBackward0"]
    assert rows.filter(pl.col("b_count") == 0)["name"].to_list() == ["nccl:all_reduce"]
    assert rows.filter(pl.col("a_count") == pl.col("b_count")).height == 5


# K16 is left out: on a file of so few numbers HTA adds in 8 bits, and 50 + 100 overflows there.
# HolisticTraceAnalysis 0.5.0 (from PyPI, Python 3.11) was run on each file alone, given as rank 0:
# get_temporal_breakdown (idle, compute, non-compute, kernel time), get_comm_comp_overlap in
# percent, get_idle_time_breakdown with its classes (host wait, kernel wait, other) added up over
# streams. Times in us.
HTA = {
    "hta/amd_mi250_minitoy_train_rocm6.2": ((8780, 96, 35, 8911), None, (8780, 0, 0)),
    "hta/critical_path_alexnet_a100": (
        (12929684, 10637, 55690, 12996011),
        None,
        (24866725, 107, 0),
    ),
    "hta/cuda_event_sync_a100": ((207, 49, 7, 263), None, (212, 0, 0)),
    "hta/odd_old_categories_inference_rank1": ((1599, 30, 0, 1629), None, (1599, 0, 0)),
    "hta/nccl_args_resnet_a100_rank0_of_2": (
        (338781, 75169, 21636, 435586),
        14.31,
        (738746, 2155, 0),
    ),
    "hta/trace_compare_base_rank1": ((0, 4, 0, 4), None, (0, 0, 0)),
    "hta/trace_compare_test_rank1": ((0, 4, 0, 4), None, (0, 0, 0)),
    "hta/execution_trace_simple_add_kineto": ((108903, 16, 0, 108919), None, (108901, 2, 0)),
    "tracelens/h100_bert_small_inference": ((3653, 252, 2, 3907), None, (3653, 0, 0)),
    "tracelens/mi210_gpu_only": ((1199, 4780, 0, 5979), None, (629, 570, 0)),
    "tracelens/mi300_bert_small_inference": ((3168, 326, 1, 3495), None, (3048, 120, 0)),
    "tracelens/mi300_sglang_qwen3_8b_decode": (
        (464534, 9205, 10, 473749),
        None,
        (465987, 558, 275),
    ),
    "tracelens/mi300_vllm_piecewise_graph_execution": (
        (800, 155599, 67, 156466),
        None,
        (0, 800, 0),
    ),
    "kineto/gpu_metrics_expected": ((11896, 48, 2, 11946), None, (11896, 0, 0)),
    "kineto/gpu_metrics_input": ((11896, 48, 2, 11946), None, (11896, 0, 0)),
    "kineto/resnet50_v100_num_workers_0_2021": (
        (327463, 492891, 10140, 830494),
        None,
        (318934, 8529, 0),
    ),
    "param/linear_rtx2080ti_kineto": ((637587, 369343, 1640, 1008570), None, (630324, 7232, 31)),
    "param/dlrm_v100_8ranks/kineto_rank0": ((6419, 1034, 5556, 13009), 4.5, (22239, 144, 0)),
    "hta/trace_diff_control_a100_rank3_of_8": (
        (62119, 234760, 86525, 383404),
        47.03,
        (958646, 16171, 39653),
    ),
    "K11_sub_us": ((6, 2, 0, 8), None, (2, 4, 0)),
    "K14_same_stream_overlap": ((0, 5, 0, 5), None, (0, -2.5, 0)),
    "K17_sync_events": ((0, 41, 59, 100), 26.25, (0, 0, 0)),
    "K18_nccl_names": ((0, 60, 5, 65), 83.33, (0, 35, 0)),
    "K19_gpu_user_annotation": ((0, 10, 0, 10), 100.0, (0, 0, 0)),
    "K22_gaps": ((4050, 600, 0, 4650), None, (0, 0, 4050)),
    "K24_queue_orphan": ((22, 26, 0, 48), None, (21, 1, 0)),
    "K25_kernel_before_launch": ((98, 40, 0, 138), None, (98, 0, 0)),
    "K26_cuda_graph": ((30, 57, 0, 87), None, (30, 0, 0)),
    "K56_eager": ((50, 60, 0, 110), None, (0, 50, 0)),
}


@pytest.mark.parametrize("name", HTA)
def test_hta_as_it_was_run(recorded, name):
    trace = recorded(name)
    temporal, overlap, idle = HTA[name]
    found = hta.events(trace)
    assert tuple(ns / US for ns in hta.temporal(found)) == temporal
    both, communication = hta.overlap(found)
    assert (round(100 * both / communication, 2) if communication else None) == overlap
    by_class = dict(hta.idle(trace).group_by("class").agg(pl.col("time_ns").sum()).rows())
    assert tuple(by_class.get(c, 0) / US for c in hta.IDLE_CLASSES) == idle


def test_hta_stops_where_rounding_turns_kernels_inside_out(recorded):
    # run on this file, get_temporal_breakdown ends in an AssertionError
    found = hta.events(recorded("tracelens/h100_qwen1.5_0.5b_inference"))
    assert "AssertionError" in hta.stops_because(found)


def test_hta_where_doubles_lose_digits(recorded):
    """Times since 1970 with three decimals: HTA ran 10,113 us idle, 1,194 us less than exact.

    Its doubles hold a quarter of a microsecond there before it rounds; that is not imitated.
    """
    found = hta.temporal(hta.events(recorded("hta/ns_resolution_resnet_ddp_v100")))
    assert found.kernel_time_ns == 384_634 * US
    assert abs(found.idle_ns - 10_113 * US) == 1_194 * US


# ---- nsys-ai --------------------------------------------------------------------------------


def test_nsys_ai_kernel_time(recorded):
    trace = recorded("nsys/nsys_ai_mfu_2gpu_before")
    view = View(trace, tuple(select(trace, window="all")))
    sums = [nsight.kernel_sum(alone).stages[-1].values["kernel"] for alone in view.each_device()]
    assert round(sum(sums) / MS, 2) == 535.20
    nccl = trace.activities.filter(pl.col("name").cast(pl.String).str.contains("(?i)nccl"))
    assert nccl.height == 66
    assert round(nccl["dur_ns"].sum() / MS, 2) == 25.40
