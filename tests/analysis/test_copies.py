"""Copies by direction: bytes over the union of their time, and what of it shows."""

import polars as pl
import pytest
from tinytrace import call, kernel, op, write

import workbench as wb
from workbench.analysis import needs
from workbench.analysis.copies import direction, host_memory

US = 1000
PINNED, PAGEABLE = "Memcpy HtoD (Pinned -> Device)", "Memcpy HtoD (Pageable -> Device)"


def copy(name, ts, dur, stream=8, cat="gpu_memcpy", **args):
    return kernel(name, ts, dur, stream=stream, cat=cat, **args)


@pytest.fixture
def trace(tmp_path):
    """Two pinned copies that overlap, one of unknown size, one pageable, one set.

    gemm          0 ........ 20
    pinned          10 ........ 30        40..44 (no size)
    pinned               16 ...... 36
    pageable                                  42....50
    set                                                60..61
    """
    return wb.open(
        write(
            tmp_path,
            [
                kernel("gemm", 0, 20),
                copy(PINNED, 10, 20, bytes=3000),
                copy(PINNED, 16, 20, stream=9, bytes=1000),
                copy(PINNED, 40, 4),
                copy(PAGEABLE, 42, 8, stream=9, bytes=800),
                copy("Memset (Device)", 60, 1, cat="gpu_memset", bytes=512),
            ],
        )
    )


def row(frame, **wanted):
    (found,) = frame.filter(**wanted).rows(named=True)
    return found


def test_bytes_over_the_union_of_the_time(trace):
    found = row(wb.copies(trace), direction="HtoD", host_memory="pinned")
    # of known size: 10-36, 4000 bytes in 26 us; each alone would be 150 and 50 bytes per us
    assert found["bytes_per_s"] == pytest.approx(4000 / 26e-6)
    sizes = ("count", "bytes", "without_bytes", "mean_bytes", "largest_bytes")
    assert [found[n] for n in sizes] == [3, 4000, 1, 2000, 3000]
    assert (found["total_ns"], found["union_ns"]) == (44 * US, 30 * US)


def test_what_no_compute_hides(trace):
    frame = wb.copies(trace)
    pinned = row(frame, host_memory="pinned")
    assert pinned["exposed_ns"] == 20 * US  # 20-36 and 40-44
    assert pinned["exposed_share"] == pytest.approx(20 / 30)
    assert row(frame, host_memory="pageable")["exposed_ns"] == 8 * US
    assert row(frame, direction="set").items() >= {"host_memory": None, "bytes": 512}.items()
    # 42-44 shows under two rows; over the device it is 16 + 10 + 1
    assert wb.summary(trace)["exposed_copy_ns"].to_list() == [27 * US]


def test_a_range_clips_time_and_counts_starts(trace):
    found = row(wb.copies(trace, window="all", within=(12 * US, 18 * US)), direction="HtoD")
    # 12-18 of the first, 16-18 of the second, which alone starts there: 1000 bytes in its 20 us
    assert (found["total_ns"], found["union_ns"], found["count"]) == (8 * US, 6 * US, 1)
    assert found["bytes_per_s"] == pytest.approx(1000 / 20e-6)


@pytest.mark.parametrize(
    ("name", "way", "memory"),
    [
        (PINNED, "HtoD", "pinned"),
        ("Memcpy DtoH (Device -> Pageable)", "DtoH", "pageable"),
        ("Memcpy DtoD (Device -> Device)", "DtoD", None),
        ("Memcpy PtoP (Device -> Device)", "PtoP", None),
        ("Memcpy HtoD (Host -> Device)", "HtoD", None),  # ROCm
        ("Memcpy Unified HtoD (Managed -> Managed)", "HtoD", "managed"),
        ("[CUDA memcpy DtoH]", "DtoH", None),
        ("CopyDeviceToHost", "DtoH", None),
        ("MEMORY_COPY_HOST_TO_DEVICE", "HtoD", None),
        ("MemcpyH2D", "HtoD", None),
        ("MEMCPY_ASYNC", None, None),
        ("dma_request", None, None),
        ("void at::native::CatArrayBatchedCopy<float, unsigned int>", None, None),
    ],
)
def test_what_a_name_says(name, way, memory):
    assert (direction(name), host_memory(name)) == (way, memory)


def test_copies_without_sizes_have_no_bandwidth_and_say_so(tmp_path):
    trace = wb.open(write(tmp_path, [copy(PINNED, 0, 5)]))
    found = row(wb.copies(trace), direction="HtoD")
    assert (found["bytes"], found["bytes_per_s"], found["without_bytes"]) == (None, None, 1)
    assert needs.unmet(trace, ("copy sizes",))
    assert not needs.unmet(wb.open(write(tmp_path, [kernel("k", 0, 1)], "k.json")), ("copy sizes",))


def test_host_execution_copies_from_host_to_host(tmp_path):
    # one copy in two stretches: its child is a view
    events = [op("aten::copy_", 0, 10), op("aten::expand", 4, 2)]
    found = row(wb.copies(wb.open(write(tmp_path, events))), direction="HtoH")
    assert (found["count"], found["total_ns"], found["bytes"]) == (1, 8 * US, None)


def test_one_row_for_each_device(tmp_path):
    events = [copy(PINNED, 0, 5, bytes=5), copy(PINNED, 0, 5, device=1, bytes=10)]
    frame = wb.copies(wb.open(write(tmp_path, events)))
    assert frame.select("device", "bytes_per_s").rows() == [(0, 1e6), (1, 2e6)]


def test_a_launch_is_no_copy(tmp_path):
    events = [call("cudaLaunchKernel", 0, 1, 1), kernel("k", 2, 3, 1)]
    assert wb.copies(wb.open(write(tmp_path, events))).height == 0


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("path", "way", "memory", "count_and_bytes"),
    [  # as counted in the files, by SQL and by JSON
        ("nsys/cloverleaf_a100_schema3.13.sqlite", "HtoD", "pageable", (254, 225_065_752)),
        ("tracelens/h100_owlv2_large_inference.json.gz", "DtoH", "pageable", (55, 146_418_600)),
        ("tracelens/mi300_xdit_sd3.5_inference.json.gz", "DtoH", None, (1, 6_291_456)),
        ("rocm/rpd_matmul_result.rpd", "HtoD", None, (2, 2_032_000_000)),
    ],
)
def test_every_maker_s_copies(corpus, path, way, memory, count_and_bytes):
    frame = wb.copies(wb.open(corpus / "traces" / path), window="all")
    mine = frame.filter(pl.col("direction") == way, pl.col("host_memory").eq_missing(memory))
    assert mine.select("count", "bytes").rows() == [count_and_bytes]
    assert mine["bytes_per_s"].min() > 0
