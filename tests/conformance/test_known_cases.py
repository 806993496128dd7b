"""Situations that broke other tools, with the right answers that stand beside their inputs.

Only the cases that today's reader and analyses concern; each later one joins with its subject.
"""

import json
import re
from pathlib import Path

import polars as pl
import pytest
from tinytrace import kernel, write

import workbench as wb
from workbench.analysis.compare import verdict
from workbench.analysis.summary import meta

pytestmark = pytest.mark.corpus


@pytest.fixture
def case(corpus):
    def opened(name):
        expected = json.loads((corpus / "cases" / f"{name[:3]}.expected.json").read_text())
        trace = wb.open(next((corpus / "cases").glob(f"{name}*")))
        return trace, expected["values"]

    return opened


def whole(trace, **options):
    return wb.summary(trace, window="all", **options).row(0, named=True)


def problem(trace, code):
    """The one problem of a code, or None."""
    return next(iter(trace.problems.filter(code=code).rows(named=True)), None)


def names(frame, column="name"):
    return frame[column].cast(pl.String).to_list()


def test_every_gzip_member_is_read(case):
    trace, want = case("K05_")
    row = whole(trace)
    assert (row["kernels"], row["busy_ns"]) == (want["kernels"], want["device_busy_ns"])


def test_quoted_times(case):
    trace, want = case("K06_")
    row = whole(trace)
    assert (row["busy_ns"], row["idle_ns"]) == (want["device_busy_ns"], want["gap_ns"])


def test_epoch_microseconds_with_a_fraction(case):
    trace, want = case("K07_")
    row = whole(trace)
    assert (row["busy_ns"], row["idle_ns"]) == (want["device_busy_ns"], want["gap_k1_k2_ns"])
    ops = trace.ops
    parent = dict(zip(names(ops), ops["parent"], strict=True))
    assert ops["name"][parent["second"]] == want["parent_of_second"]
    assert ops["name"][parent["first"]] == want["parent_of_second"]


@pytest.mark.parametrize("unit", ["ms", "ns", "absent"])
def test_display_unit_is_for_viewers(case, unit):
    trace, want = case(f"K08_unit_{unit}")
    assert whole(trace)["busy_ns"] == want["device_busy_ns_each_file"]


def test_unfilled_kernel(case):
    trace, want = case("K09_")
    row = whole(trace)
    assert row["kernels"] == want["valid_kernels"]
    assert (row["busy_ns"], row["window_ns"]) == (want["device_busy_ns"], want["device_span_ns"])
    assert trace.problems["count"].sum() == want["invalid_kernels"]
    assert trace.launches.height == want["launches"]


def test_kernels_below_a_microsecond(case):
    trace, want = case("K11_")
    assert whole(trace)["busy_ns"] == want["device_busy_ns"]
    durations = trace.activities["dur_ns"]
    assert (durations.mean(), durations.min()) == (want["mean_kernel_ns"], want["min_kernel_ns"])


def test_no_accelerator(case):
    trace, want = case("K12_")
    rows = wb.summary(trace).rows(named=True)
    assert len(rows) == want["summary_rows"]
    row = rows[0]
    assert (row["device_kind"], row["kernels"]) == (want["device_kind"], want["kernels"])
    assert (row["busy_ns"], row["idle_ns"]) == (want["busy_ns"], want["idle_ns"])
    self_ns = wb.ops(trace).select("name", "self_host_ns").rows()
    assert dict(self_ns) == want["self_ns"]
    assert trace.meta.device_reason == "host execution, no GPU activity in this trace"


def test_overlap_on_one_stream_keeps_both(case):
    trace, want = case("K14_")
    row = whole(trace)
    assert (row["kernels"], row["busy_ns"]) == (want["kernels"], want["device_busy_ns"])
    assert wb.kernels(trace, window="all")["total_ns"].sum() == want["sum_of_kernel_ns"]
    note = problem(trace, "same_stream_overlap")
    assert note["count"] == 1
    assert f"{want['same_stream_overlap_ns']} ns before" in note["first_example"]


def test_zero_duration_kernel(case):
    trace, want = case("K15_")
    row = whole(trace)
    assert (row["kernels"], row["busy_ns"]) == (want["kernels"], want["device_busy_ns"])
    k0 = wb.kernels(trace, window="all").filter(pl.col("name") == "k0").row(0, named=True)
    assert (k0["count"], k0["mean_ns"]) == (want["calls"]["k0"], want["mean_ns"]["k0"])
    assert problem(trace, "same_stream_overlap") is None


def test_one_stream_number_on_two_devices(case):
    trace, want = case("K16_")
    for device, busy in want["busy_ns"].items():
        row = whole(trace, device=int(device))
        assert (row["busy_ns"], row["overlap_ns"]) == (busy, want["overlap_ns"][device])


@pytest.mark.parametrize("name", ["K17_", "K18_", "K19_", "K20_"])
def test_overlap(case, name):
    trace, want = case(name)
    row = whole(trace)
    assert row["compute_ns"] == want["compute_ns"]
    assert row["communication_ns"] == want["comm_ns"]
    assert row["overlap_ns"] == want.get("overlap_ns", 0)
    assert row["busy_ns"] == want.get("device_busy_ns", row["busy_ns"])
    assert row["collectives"] == want.get("comm_kernels", row["collectives"])
    share = wb.overlap(trace, window="all")["overlap_share"][0]
    percent = want.get("overlap_pct_of_comm", 100)
    assert share == (None if percent is None else pytest.approx(percent / 100, abs=1e-6))
    if "kernels" in want:
        assert row["kernels"] == want["kernels"]
    if "streams_with_kernels" in want:
        assert sorted(trace.activities["stream"]) == want["streams_with_kernels"]


def test_no_communication_is_said(case):
    trace, _ = case("K20_")
    said = wb.overlap(trace, window="all")["reason"].to_list()
    assert said == ["no communication in this window"]


def test_concurrent_streams(case):
    trace, want = case("K21_")
    assert whole(trace)["busy_ns"] == want["device_busy_ns"]
    assert whole(trace)["idle_ns"] == want["idle_in_whole_span_ns"]
    in_host_step = wb.summary(trace, window="host").row(0, named=True)
    assert in_host_step["idle_ns"] == want["idle_in_host_step_ns"]


def test_gaps_add_up_to_the_idle_time(case):
    trace, want = case("K22_")
    assert whole(trace)["idle_ns"] == want["idle_ns_all"]
    every = wb.idle(trace, window="all")
    assert (every.height, every["dur_ns"].sum()) == (want["gaps_all"], want["idle_ns_all"])


def test_a_threshold_counts_and_adds_up_the_same_gaps(case):
    trace, want = case("K22_")
    long = wb.idle(trace, window="all", longer_than_ns=10**6)
    assert (long.height, long["dur_ns"].sum()) == (
        want["gaps_over_1ms"],
        want["idle_ns_over_1ms"],
    )
    by_cause = wb.idle_causes(trace, window="all", longer_than_ns=10**6).drop_nulls("time_ns")
    assert by_cause["time_ns"].sum() == want["idle_ns_over_1ms"]
    assert by_cause["gaps"].max() == want["gaps_over_1ms"]


def test_a_first_step_that_waits_for_other_ranks(case):
    trace, want = case("K23_")
    assert whole(trace)["communication_ns"] == want["raw_comm_ns"]
    frame = wb.steps(trace)
    steady = frame.filter(pl.col("step") > 10)
    assert steady.height == want["steady_steps"]
    assert set(steady["exposed_communication_ns"]) == {want["steady_comm_ns_per_step"]}
    assert set(steady["compute_ns"]) == {want["steady_compute_ns_per_step"]}
    assert frame["exposed_communication_ns"].median() == want["median_comm_ns_per_step"]
    assert frame.filter("outlier")["step"].to_list() == [10]
    assert "step 10 of rank 0 took 9 s where 200 us is usual" in meta(trace)["reason"]
    row = wb.summary(trace, window="steady").row(0, named=True)
    assert row["steps"] == want["steady_steps"]
    assert row["communication_ns"] == 5 * want["steady_comm_ns_per_step"]
    assert row["compute_ns"] == 5 * want["steady_compute_ns_per_step"]


def test_kernel_whose_launch_was_not_recorded(case):
    trace, want = case("K24_")
    orphans = trace.activities.filter(pl.col("launch").is_null())
    assert names(orphans) == ["orphan"]
    note = problem(trace, "launch_missing")
    assert (note["count"], note["first_example"]) == (want["kernels_without_launch"], "orphan")
    over_time = wb.queue_depth(trace)
    for stream in (None, 7):
        mine = over_time.filter(pl.col("stream").eq_missing(stream))
        assert [list(row) for row in mine.select("t_ns", "depth").rows()] == want["series"]
        assert (mine["depth"].max(), mine["depth"].min()) == (want["max"], want["min"])
    queue = wb.queue(trace)
    assert set(queue["max_depth"]) == {want["max"]}
    assert set(queue["without_launch"]) == {want["kernels_without_launch"]}
    assert set(queue["inverted"]) == {0}


def test_kernel_that_begins_before_its_launch(case):
    trace, want = case("K25_")
    assert trace.activities["launch"].null_count() == 0
    note = problem(trace, "clock_inversion")
    assert note["count"] == want["negative_delays"]
    assert "3000 ns before" in note["first_example"]
    delays = wb.delays(trace)
    valid = delays.filter(pl.col("reason").is_null())
    assert valid["call_to_start_ns"].to_list() == want["delay_from_launch_start_ns_valid"]
    assert valid["queue_ns"].to_list() == want["delay_from_launch_end_ns_valid"]
    inverted = delays.filter(pl.col("reason") == "clock_inversion")
    assert inverted.select("queue_ns", "call_to_start_ns").rows() == [(None, None)]
    row = wb.launches(trace).row(0, named=True)
    assert row["inverted"] == want["negative_delays"]
    # the inverted pair is in no mean
    assert row["queue_mean_ns"] == want["delay_from_launch_end_ns_valid"][0]


def test_graph_replay(case):
    trace, want = case("K26_")
    assert trace.launches.height == want["launch_calls"]
    per_launch = trace.activities["launch"].value_counts()["count"]
    assert per_launch.max() == want["kernels_of_graph_launch"]
    device = wb.ops(trace, window="all").select("name", "self_device_ns").rows()
    assert dict(device) == want["device_ns"]
    assert trace.activities["op"].null_count() == want["unattributed_ns"]
    assert trace.problems.height == 0


def test_launch_names_of_every_vendor(case):
    trace, want = case("K27_")
    assert trace.activities.height == want["device_events"]
    assert trace.activities["launch"].count() == want["linked"]
    kinds = names(trace.launches, "kind")
    assert kinds.count("launch") == want["kernel_launch_calls"]
    assert kinds.count("copy") + kinds.count("set") == want["copy_or_set_calls"]


def test_wrappers_do_not_repeat_device_time(case):
    trace, want = case("K28_")
    frame = wb.ops(trace, window="all")
    assert dict(frame.select("name", "self_device_ns").rows()) == want["self_device_ns"]
    assert set(frame["total_device_ns"]) == {want["total_device_ns_each"]}
    assert dict(frame.select("name", "self_host_ns").rows()) == want["self_cpu_ns"]


def test_backward_on_the_thread_of_forward(case):
    trace, want = case("K29_")
    ops = trace.ops.with_columns(pl.col("name").cast(pl.String))
    pairs = ops.join(ops, left_on="forward", right_on="id", suffix="_forward")
    node = pl.col("name").str.starts_with("autograd::engine")
    assert pairs.filter(~node).select("name_forward", "name").rows() == [
        tuple(link) for link in want["links"]
    ]
    assert pairs.filter(node)["name_forward"].to_list() == [want["links"][0][0]]
    device = trace.activities.group_by("phase").agg(pl.col("dur_ns").sum()).rows()
    assert dict(device) == {
        "other": want["forward_device_ns"],  # no step is marked, so it is not inside one
        "backward": want["backward_device_ns"],
    }


def test_child_that_outlives_its_parent(case):
    trace, want = case("K30_")
    self_ns = dict(wb.ops(trace).select("name", "self_host_ns").rows())
    assert {n: self_ns[n] for n in want["self_ns"]} == want["self_ns"]


def test_time_belongs_to_the_launching_step(case):
    trace, want = case("K31_")
    by_step = trace.activities.group_by("step").agg(pl.col("dur_ns").sum()).rows()
    assert {str(s): ns for s, ns in by_step} == want["device_ns_by_launching_step"]
    for number, ns in want["device_ns_inside_cpu_window"].items():
        window = {"window": "host", "step": (int(number), int(number))}
        assert wb.summary(trace, **window)["busy_ns"][0] == ns


def test_no_step_marks(case):
    trace, want = case("K33_")
    row = wb.summary(trace).row(0, named=True)
    assert row["steps"] == want["steps"]
    assert (row["busy_ns"], row["window_ns"]) == (want["device_busy_ns"], want["device_span_ns"])
    assert "no complete step is marked" in meta(trace)["reason"]


def test_mirrored_step_marks(case):
    trace, want = case("K34_")
    host = {str(s): ns for s, ns in trace.steps.select("step", "host_dur_ns").rows()}
    assert host == want["step_ns"]
    assert whole(trace)["busy_ns"] == want["device_busy_ns"]
    assert trace.steps["step"].to_list() == want["steps"]


def test_a_file_that_was_cut(case):
    trace, want = case("K01_")
    row = whole(trace)
    assert row["kernels"] == want["complete_events_before_cut"]
    assert row["busy_ns"] == want["device_busy_ns"]
    assert trace.meta.truncated
    assert trace.problems["code"].to_list() == ["cut_short"]


def test_control_characters_inside_names(case):
    trace, want = case("K02_")
    row = whole(trace)
    assert trace.meta.events == want["events"]
    assert (row["kernels"], row["busy_ns"]) == (want["kernels"], want["device_busy_ns"])
    assert any("\x01" in n for n in names(trace.frames))
    assert any("\n" in n for n in names(trace.frames))


def test_windows_paths(case):
    trace, want = case("K03_")
    assert trace.meta.events == want["events"]
    assert whole(trace)["busy_ns"] == want["device_busy_ns"]
    assert sorted(names(trace.frames)) == sorted(want["names_preferred"])


def test_bare_inf_and_nan(case):
    trace, want = case("K04_")
    row = whole(trace)
    assert trace.meta.events == want["events"]
    assert (row["copy_ns"], row["compute_ns"]) == (want["memcpy_time_ns"], want["kernel_time_ns"])
    assert trace.activities["bytes"].sum() == want["memcpy_bytes"]
    assert trace.activities["occupancy"].null_count() == trace.activities.height
    assert trace.problems["code"].to_list() == ["bare_numbers"]


def test_begin_and_end_events(case):
    trace, want = case("K10_")
    found = dict(zip(names(trace.ranges), trace.ranges["dur_ns"], strict=True))
    assert found == {n: want[f"{n}_ns"] for n in ("outer", "inner", "x", "tail")}
    faults = {r["code"]: r for r in trace.problems.rows(named=True)}
    assert faults["unfinished_event"]["first_example"] == want["unfinished"][0]
    assert faults["unfinished_event"]["count"] == len(want["unfinished"])
    assert faults["stray_end"]["count"] == want["stray_end_events"]


def test_an_open_array(case):
    trace, want = case("K13_")
    row = whole(trace)
    assert (row["kernels"], row["busy_ns"]) == (want["kernels"], want["device_busy_ns"])
    assert not trace.problems.height  # legal in the Chrome format


def test_memory_profiling_without_memory_events(case):
    trace, want = case("K55_")
    assert trace.memory.height == want.get("memory_events", 0)
    assert trace.problems["code"].to_list() == ["no_memory_events"]


def note(trace, code):
    return trace.problems.filter(pl.col("code") == code).row(0, named=True)


def launched_in(trace, name):
    """Return the kernels whose call began in a range: on its thread, or anywhere in its process."""
    (found,) = trace.ranges.filter(pl.col("name").cast(pl.String) == name).rows(named=True)
    pid = [t.pid for t in trace.meta.threads]
    start, end = found["start_ns"], found["start_ns"] + found["dur_ns"]
    calls = [
        c["id"]
        for c in trace.launches.iter_rows(named=True)
        if start <= c["start_ns"] < end
        and (c["thread"] == found["thread"] or found["form"] == "free")
        and pid[c["thread"]] == pid[found["thread"]]
    ]
    return trace.activities.filter(pl.col("launch").is_in(calls))


def test_an_export_without_annotations(case):
    trace, want = case("K39_")
    row = whole(trace)
    assert (row["kernels"], row["busy_ns"]) == (want["kernels"], want["device_busy_ns"])
    assert trace.activities["launch"].count() == want["linked"]
    assert trace.ranges.height == want["nvtx_ranges"]
    assert "no annotations captured" in note(trace, "no_annotations")["effect"]


def test_annotations_without_an_end(case):
    trace, want = case("K40_")
    ranges = trace.ranges.filter(pl.col("form") != "mark")
    assert [[n, d] for n, d in ranges.select("name", "dur_ns").rows()] == want["ranges"]
    assert names(trace.ranges.filter(pl.col("form") == "mark")) == want["marks"]
    assert trace.ranges.height == len(want["ranges"]) + len(want["marks"])
    assert whole(trace)["kernels"] == want["kernels"]


def test_correlations_that_repeat_across_processes(case):
    trace, want = case("K41_")
    assert trace.activities["launch"].n_unique() == want["links"]
    under = launched_in(trace, "fwd")
    assert names(under) == want["kernels_under_fwd"]
    assert under["dur_ns"].sum() == want["device_ns_under_fwd"]


def test_ranges_that_begin_and_end_on_different_threads(case):
    trace, want = case("K42_")
    for name, kernels in want["kernels_launched_in"].items():
        under = launched_in(trace, name)
        assert names(under) == kernels
        assert under["dur_ns"].sum() == want["device_ns"][name]
    assert trace.ranges["form"].to_list() == ["free", "free"]
    assert trace.ranges["parent"].null_count() == 2


def test_an_export_without_kernels_of_an_unknown_schema(case):
    trace, want = case("K43_")
    assert trace.activities.height == want["kernels"]
    assert trace.launches.height == want["runtime_calls"]
    assert [[n, d] for n, d in trace.ranges.select("name", "dur_ns").rows()] == want["ranges"]
    assert note(trace, "no_kernels")["effect"] == "no GPU kernels in this export"
    assert note(trace, "newer_schema")["first_example"] == "schema 99.0.0"
    assert wb.summary(trace)["busy_ns"].to_list() == [None]


def test_the_same_work_from_a_graph(case, corpus):
    eager, want = case("K56_eager")
    graph = wb.open(corpus / "cases" / "K56_graph.json")
    both = (eager, graph)
    assert [t.launches.height for t in both] == want["launch_calls"]
    rows = [whole(t) for t in both]
    assert [r["kernels"] for r in rows] == want["kernels"]
    assert [r["busy_ns"] for r in rows] == want["device_busy_ns"]
    before, after = (set(names(wb.kernels(t, window="all"))) for t in both)
    assert sorted(after - before) == want["kernel_names_added"]
    assert sorted(before - after) == want["kernel_names_removed"]
    step, work = verdict(wb.compare(*both))
    assert step.startswith("the window went from 110 us to 60 us")
    assert work == (
        "fewer launches, the same device work: 6 calls became 1 for the same 6 activities, "
        "60 us and 60 us of device time"
    )


def test_every_case_of_timeline_and_attribution_is_met(corpus):
    subjects = ("timeline", "overlap", "idle", "attribution")
    tried = set(re.findall(r"\"(K\d\d)_", Path(__file__).read_text()))
    for path in sorted((corpus / "cases").glob("K*.expected.json")):
        expected = json.loads(path.read_text())
        sqlite = any(name.endswith(".sqlite") for name in expected["inputs"])
        if expected["area"] in subjects and not sqlite:
            assert expected["case"] in tried


def test_ranks_from_file_names(case):
    job, want = case("K35_dir")
    assert [t.meta.rank for t in job.ranks] == want["ranks"]
    busy = {str(r): ns for r, ns in wb.summary(job, window="all").select("rank", "busy_ns").rows()}
    assert busy == want["busy_ns"]
    told = job.problems.filter(pl.col("code") == "rank_from_name")
    assert told["first_example"].to_list() == ["trace_rank_0.json", "trace_rank_1.json"]
    skipped = note(job, "other_files")
    assert skipped["count"] == len(want["skipped"])
    assert skipped["first_example"] == (
        "execution_details.json (is no profiler trace: it has no traceEvents), "
        "et_rank_0.json (a recording of the kind pytorch-execution-trace)"
    )


def test_several_windows_of_one_rank(case):
    job, want = case("K36_dir")
    assert [t.meta.rank for t in job.ranks] == want["ranks"]
    files = job.ranks[0].meta.windows
    assert len(files) == want["windows_of_rank_0"]
    ranges = [(w.start_ns, w.end_ns) for w in files]
    busy = [wb.summary(job, window="all", within=r)["busy_ns"].item() for r in ranges]
    assert busy == want["busy_ns_by_window"]
    marks = wb.steps(job)
    held = [marks.filter(pl.col("start_ns").is_between(a, b, closed="left")) for a, b in ranges]
    assert [m["step"].to_list() for m in held] == want["steps_by_window"]
    assert marks["busy_ns"].to_list() == want["busy_ns_by_window"]
    assert note(job, "windows_without_clock")["count"] == 1
    assert whole(job)["window_ns"] == 100_000  # kernels 0-40 and 100-160, the time between unknown


def test_clocks_that_differ_between_ranks(case):
    job, want = case("K37_dir")
    assert job.clock_offsets["offset_ns"].to_list() == [0, want["skew_rank1_minus_rank0_ns"]]
    frame = wb.collectives(job)
    for one in want["collectives"]:
        rows = frame.filter(pl.col("seq") == one["seq"])
        waits = dict(zip(rows["rank"], rows["wait_ns"], strict=True))
        assert {str(r): ns for r, ns in waits.items()} == one["wait_ns"]
        assert min(waits, key=waits.get) == one["last_to_arrive"]
        assert set(rows["transfer_ns"]) == {one["transfer_ns"]}
    total = frame.group_by("rank").agg(pl.col("wait_ns").sum())
    assert {str(r): ns for r, ns in total.rows()} == want["total_wait_ns"]
    assert note(job, "clock_offset")["first_example"] == (
        "rank 1 is 5,000,000 ns ahead of rank 0 by the ends of 2 collectives"
    )


def test_base_time_before_and_after_the_events(case):
    job, want = case("K38_dir")
    starts = dict(job.activities.select("rank", "start_ns").rows())
    absolute = {str(r): job.origin_ns + ns for r, ns in starts.items()}
    assert absolute == want["absolute_start_ns"]
    assert starts[1] - starts[0] == want["start_difference_ns"]


def test_frames_are_passed_over_until_they_are_asked_for(tmp_path):  # K32, a hundredth of it
    events = [
        {"ph": "X", "cat": "python_function", "name": f"f{i % 9}", "pid": 1, "tid": 1, "ts": i,
         "dur": 1, "args": {"Python id": i + 1, "Python parent id": i}}
        for i in range(20_000)
    ]  # fmt: skip
    trace = wb.open(write(tmp_path, events + [kernel("k", 100 * i, 10) for i in range(10)]))
    assert "frames" not in vars(trace)
    row = whole(trace)
    assert (row["kernels"], row["busy_ns"]) == (10, 100_000)
    assert trace.frames.height == 20_000
    assert trace.frames["parent"][10] == 9


SUBJECTS = {"ingest", "timeline", "overlap", "idle", "attribution", "multi-rank", "memory"}


def test_every_case_that_concerns_reading_is_tried(corpus):
    tried = set(re.findall(r"K\d\d", Path(__file__).read_text()))
    elsewhere = {"K52", "K53", "K54"}  # tests/trace/test_memory_files.py
    for path in sorted((corpus / "cases").glob("K*.expected.json")):
        expected = json.loads(path.read_text())
        if expected["area"] in SUBJECTS:
            assert expected["case"] in tried | elsewhere
