"""Files of hardware counters: what opens, in which units, and what damage does."""

import gzip

import countersfile as made
import polars as pl
import pytest

import workbench as wb
from workbench.analysis.names import ANALYSES
from workbench.analysis.window import select
from workbench.errors import InputError, NotATraceError
from workbench.show import Choice, about, frame
from workbench.trace.counters import assembly, ncu, text


def values(trace, activity=0):
    found = trace.kernel_counters.filter(pl.col("activity") == activity)
    return dict(found.select(pl.col("name").cast(pl.String), "value").iter_rows())


def problems(trace):
    return dict(trace.problems.select("code", "count").iter_rows())


def test_a_raw_page_is_launches_in_order_with_their_counters_in_base_units(tmp_path):
    shared = "launch__shared_mem_per_block_"
    counts = {
        made.READ: "2,000.5", made.WRITE: "1,000,000", made.DURATION: "12.5",
        "launch__registers_per_thread": "32", f"{shared}static": "1.5", f"{shared}dynamic": "2.5",
        "sm__cycles_elapsed.avg.per_second": "1.41",
    }  # fmt: skip
    units = {made.READ: "Mbyte", made.WRITE: "byte", made.DURATION: "usecond",
             f"{shared}static": "Kbyte/block", f"{shared}dynamic": "Kbyte/block",
             "sm__cycles_elapsed.avg.per_second": "cycle/nsecond"}  # fmt: skip
    trace = wb.open(made.write(tmp_path, made.raw([("a(int)", counts), ("b", {})], units=units)))
    assert (trace.meta.format, trace.meta.device_kind, trace.meta.timed) == ("ncu", "cuda", False)
    first = trace.activities.row(0, named=True)
    # 12.5 us; 1.5 + 2.5 KB of 1000 bytes
    assert {n: first[n] for n in ("name", "device", "stream", "start_ns", "dur_ns")} == {
        "name": "a(int)", "device": 0, "stream": 7, "start_ns": None, "dur_ns": 12_500,
    }  # fmt: skip
    assert (first["registers"], first["shared_bytes"]) == (32, 4000)
    assert (first["grid"], first["block"]) == ([4, 1, 1], [128, 1, 1])
    found = values(trace)
    assert found[made.READ] == 2_000_500_000
    assert found[made.WRITE] == 1_000_000
    assert found["sm__cycles_elapsed.avg.per_second"] == pytest.approx(1.41e9)
    assert trace.activities["name"].to_list() == ["a(int)", "b"]
    assert trace.activities["dur_ns"][1] is None


@pytest.mark.parametrize(
    ("unit", "factor", "base"),
    [
        ("byte", 1, "byte"),
        ("Gbyte/second", 1e9, "byte/s"),
        ("Pbyte", 1e15, "byte"),
        ("msecond", 1e6, "ns"),
        ("us", 1e3, "ns"),
        ("Ghz", 1e9, "hz"),
        ("cycle/usecond", 1e6, "cycle/s"),
        ("inst/cycle", 1, "inst/cycle"),
        ("%", 1, "%"),
        ("", 1, ""),
    ],
)
def test_prefixes_of_units_are_taken_off(unit, factor, base):
    found, name = ncu.unit_of(unit)
    assert (round(found / factor, 12), name) == (1, base)


def test_messages_before_between_and_after_are_no_launches(tmp_path):
    page = made.raw(
        [("k", {made.READ: "64"})],
        before=["==PROF== Connected to process 9 (/usr/bin/x)", '[loss "0.5', "step,1"],
        after=["==PROF== Disconnected from process 9"],
    )
    trace = wb.open(made.write(tmp_path, page))
    assert (trace.activities.height, values(trace)) == (1, {made.READ: 64.0})
    assert problems(trace) == {}


def test_what_the_tool_could_not_collect_has_no_value(tmp_path):
    page = made.raw([("k", {made.READ: "n/a", made.WRITE: "nan", "x": "inf", "y": "text"})])
    trace = wb.open(made.write(tmp_path, page))
    assert trace.kernel_counters.is_empty()
    assert problems(trace) == {"counter_unavailable": 3}


def test_a_details_page_has_a_row_a_metric(tmp_path):
    page = made.details(
        [
            (0, "k", "GPU Speed Of Light Throughput", "Duration", "us", "2.5"),
            (0, "k", "Command line profiler metrics", made.READ, "Kbyte", "1.5"),
            (0, "k", "SpeedOfLight", "", "", ""),
            (1, "k", "GPU Speed Of Light Throughput", "Duration", "ns", "1,000"),
        ]
    )
    trace = wb.open(made.write(tmp_path, page))
    assert trace.activities["dur_ns"].to_list() == [2500, 1000]
    assert values(trace)[made.READ] == 1500
    assert trace.kernel_counters["source"][0] == "GPU Speed Of Light Throughput"


def test_rocprofiler_compute_opens_by_folder_and_by_file(tmp_path):
    rows = [
        {"SQ_WAVES": 4, "Wave_Size_1": 64, "Start_Timestamp": 1000, "End_Timestamp": 1500,
         "Kernel_Name": "k [clone .kd]", "Arch_VGPR": 8, "LDS_Per_Workgroup": 512},
        {"SQ_WAVES": 4, "Start_Timestamp": 3000, "End_Timestamp": 3200},
    ]  # fmt: skip
    made.rocprof(tmp_path, rows, benchmark={"HBMBw": 1400})
    for source in (tmp_path, tmp_path / "pmc_perf.csv"):
        trace = wb.open(source)
        assert trace.activities["start_ns"].to_list() == [0, 2000]
        assert trace.activities["dur_ns"].to_list() == [500, 200]
        assert trace.activities["name"].to_list() == ["k", "k"]
        assert trace.activities.row(0, named=True)["registers"] == 8
        assert values(trace) == {"Grid_Size": 1024, "Workgroup_Size": 256, "SQ_WAVES": 4}
        assert trace.meta.devices[0].properties["HBMBw"] == 1400
        assert trace.meta.timed is False


def test_times_in_powers_of_ten_are_not_times(tmp_path):
    rows = [{"SQ_WAVES": 4, "Start_Timestamp": "8.1097E+14", "End_Timestamp": "8.1097E+14"}]
    trace = wb.open(made.rocprof(tmp_path, rows))
    assert trace.activities.select("start_ns", "dur_ns").row(0) == (None, None)
    assert problems(trace) == {"rounded_times": 1}


def test_the_files_beside_the_counters_are_never_forgotten_by_a_cache(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    folder.mkdir()
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "cache"))
    many = {f"C{i}": i for i in range(9000)}  # beyond 64 KiB, so that it could be cached
    made.rocprof(folder, [many], arch="gfx90a")
    assert wb.open(folder).meta.devices[0].properties["gpu_arch"] == "gfx90a"
    made.rocprof(folder, [many], arch="gfx942")
    assert wb.open(folder).meta.devices[0].properties["gpu_arch"] == "gfx942"


def test_counters_are_no_timeline(tmp_path):
    trace = wb.open(made.write(tmp_path, made.raw([("k", {made.DURATION: "9"})])))
    assert select(trace) == []
    wrong = {}
    for name in ANALYSES:
        try:
            frame(trace, name, Choice())
            reason = about(trace, name, Choice())["reason"]
        except Exception as error:  # noqa: BLE001 - named below
            wrong[name] = repr(error)
        else:
            if "no timeline" not in str(reason):
                wrong[name] = reason
    assert wrong == {}


@pytest.mark.parametrize("cut", [0, 9, 40])
def test_lines_of_another_form_are_left_out(tmp_path, cut):
    page = made.raw([("k", {made.READ: "1"}), ("l", {made.READ: "2"})])
    page = page[:-cut] if cut else page + "odd,line\n"
    trace = wb.open(made.write(tmp_path, page))
    assert trace.activities.height == (1 if cut else 2)
    assert problems(trace) == {"bad_record": 1}


def test_no_more_values_are_read_than_may_be(tmp_path, monkeypatch):
    monkeypatch.setattr(assembly, "MOST_VALUES", 3)
    trace = wb.open(made.write(tmp_path, made.raw([("k", {made.READ: "1", made.WRITE: "2"})] * 9)))
    assert (trace.activities.height, trace.meta.truncated) == (2, True)
    assert problems(trace) == {"too_many_rows": 1}


def test_a_line_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "LONGEST_LINE", 1000)
    page = made.raw([("k", {made.READ: "1"})]) + "9" * 2000
    with pytest.raises(InputError, match="no table of counters"):
        wb.open(made.write(tmp_path, page))


def test_a_page_without_a_kernel_says_so(tmp_path):
    with pytest.raises(InputError, match="holds no kernel"):
        wb.open(made.write(tmp_path, made.raw([])))


def test_launch_times_alone_are_no_counters(tmp_path):
    path = made.write(tmp_path, "Dispatch_ID,Kernel_Name,GPU_ID\n0,k,0\n")
    with pytest.raises(NotATraceError, match="no counters"):
        wb.open(path)


def test_a_packed_page_opens(tmp_path):
    path = tmp_path / "c.csv.gz"
    path.write_bytes(gzip.compress(made.raw([("k", {made.READ: "1"})]).encode()))
    assert wb.open(path).activities.height == 1


@pytest.mark.parametrize(
    "cells",
    ["-1", "99999999999999999999999", "1e308", "(1, 2", "\x00", "é" * 9, "1,2,3,4,5", "0x10"],
)
def test_absurd_cells_are_unknown_and_no_error(tmp_path, cells):
    page = made.raw([("k", {made.DURATION: cells, "launch__registers_per_thread": cells})])
    page = page.replace('"(4, 1, 1)"', f'"{cells}"')
    trace = wb.open(made.write(tmp_path, page))
    assert trace.activities["grid"][0] is None
    assert trace.activities.height == 1


@pytest.mark.corpus
def test_the_recorded_copies_open(corpus):
    place = corpus / "traces/rocm/rocprof_compute"
    trace = wb.open(place / "vcopy_MI200")
    # timestamps.csv: 656192 - 635712, 765792 - 749472, 802112 - 786592
    assert trace.activities["dur_ns"].to_list() == [20_480, 16_320, 15_520]
    assert trace.meta.devices[0].properties["HBMBw"] == 1389.0227
    other = wb.open(place / "vcopy_MI300X_A1")
    assert other.activities["dur_ns"].to_list() == [None] * 3
    assert problems(other) == {"rounded_times": 3}


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("1,234,567.5", 1_234_567.5), ("-1,000", -1000), ("12345,678", None), ("0,55", None),
        ("1.234,5", None), ("1_000", None), ("1,2,3", None), ("1e3", 1000), (" 7 ", 7),
    ],
)  # fmt: skip
def test_commas_are_read_between_thousands_alone(cell, value):
    assert text.number(cell) == value


def test_a_number_in_another_form_is_reported_and_not_guessed(tmp_path):
    trace = wb.open(made.write(tmp_path, made.raw([("k", {made.READ: "0,55", made.WRITE: "3"})])))
    assert values(trace) == {made.WRITE: 3}
    assert problems(trace) == {"odd_number": 1}


def test_the_value_of_a_counter_stands_before_those_of_its_instances(tmp_path):
    trace = wb.open(made.write(tmp_path, made.raw([("k", {made.READ: "1,500 (1,000; 500)"})])))
    assert values(trace) == {made.READ: 1500}


def test_a_summary_over_launches_is_no_list_of_them(tmp_path):
    header = ["Process ID", "Process Name", "Host Name", "Kernel Name", "Invocations",
              "Metric Name", "Metric Unit", "Minimum", "Maximum", "Average"]  # fmt: skip
    row = [9, "python3", "host", "k", 4, made.READ, "byte", 1, 3, 2]
    path = made.write(tmp_path, "\n".join([made.quoted(header), made.quoted(row)]) + "\n")
    with pytest.raises(InputError, match="summary over launches"):
        wb.open(path)


def test_a_page_that_a_spreadsheet_or_pandas_saved_again(tmp_path):
    page = made.raw([("k", {made.READ: "3"})])
    lines = enumerate(page.splitlines())
    numbered = "\n".join(f"{number - 1 if number else ''},{line}" for number, line in lines)
    for text_of in ("\ufeff" + page, page.replace("\n", "\r\n"), numbered + "\n"):
        trace = wb.open(made.write(tmp_path, text_of))
        assert values(trace) == {made.READ: 3}
        assert trace.activities.height == 1
