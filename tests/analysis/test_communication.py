"""Overlap, exposed stretches and collectives, worked out by hand."""

import pytest
from tinytrace import kernel, op, write

import workbench as wb

US = 1000


def nccl(ts, dur, seq=1, stream=20, name="ncclDevKernel_AllReduce_Sum", **args):
    args = {"Collective name": "allreduce", "In msg nelems": 1000, "Out msg nelems": 1000,
            "Group size": 4, "dtype": "Float", "Process Group Name": "0",
            "Process Group Ranks": "[0, 1]", "Seq": seq, **args}  # fmt: skip
    return kernel(name, ts, dur, stream=stream, **args)


def test_overlap_share(tmp_path):
    # gemm 0-60; collectives 0-10, 20-30, 55-65: 25 of 30 hidden (K18)
    events = [kernel("gemm", 0, 60), nccl(0, 10), nccl(20, 10, 2), nccl(55, 10, 3)]
    row = wb.overlap(wb.open(write(tmp_path, events))).row(0, named=True)
    assert (row["communication_ns"], row["overlap_ns"]) == (30 * US, 25 * US)
    assert row["overlap_share"] == pytest.approx(25 / 30)


def test_no_communication_is_said_not_zero(tmp_path):
    row = wb.overlap(wb.open(write(tmp_path, [kernel("gemm", 0, 60)]))).row(0, named=True)
    assert row["overlap_share"] is None
    assert row["reason"] == "no communication in this window"


def test_exposed_stretches_add_up_and_name_the_collective(tmp_path):
    # gemm 0-20 and 50-60; reduce 10-70 alone in 20-50 and 60-70; a second one 25-45 beside it
    events = [
        kernel("gemm", 0, 20),
        kernel("gemm", 50, 10),
        nccl(10, 60),
        nccl(25, 20, 2, stream=21, name="ncclDevKernel_AllGather"),
    ]
    trace = wb.open(write(tmp_path, events))
    frame = wb.exposed(trace)
    assert frame.select("start_ns", "dur_ns", "collective").rows() == [
        (20 * US, 30 * US, "all_reduce"),
        (60 * US, 10 * US, "all_reduce"),
    ]
    assert frame["dur_ns"].sum() == wb.summary(trace)["exposed_communication_ns"][0]


def test_bandwidth(tmp_path):
    # 4000 bytes in 10 us: 0.4 GB/s, times 2(4-1)/4 for an all-reduce of 4 ranks
    row = wb.collectives(wb.open(write(tmp_path, [nccl(0, 10)]))).row(0, named=True)
    assert row["algorithm_bytes_per_s"] == pytest.approx(0.4e9)
    assert row["bus_bytes_per_s"] == pytest.approx(0.6e9)
    assert row["exposed_ns"] == 10 * US
    assert row["wait_ns"] is None


@pytest.mark.parametrize(
    ("kernel_name", "factor"),
    [
        ("ncclDevKernel_AllReduce_Sum", 1.5),
        ("ncclDevKernel_ReduceScatter_Sum", 0.75),
        ("ncclDevKernel_AllGather", 0.75),
        ("ncclDevKernel_AllToAll", 0.75),
        ("ncclDevKernel_Broadcast", 1.0),
        ("ncclDevKernel_Reduce_Sum", 1.0),
        ("ncclDevKernel_SendRecv", 1.0),
        ("ncclDevKernel_Barrier", None),
    ],
)
def test_bus_bandwidth_by_collective(tmp_path, kernel_name, factor):
    # of 4 ranks: 2 x 3/4, 3/4 or 1 of 0.4 GB/s (nccl-tests)
    trace = wb.open(write(tmp_path, [nccl(0, 10, name=kernel_name)]))
    bus = wb.collectives(trace)["bus_bytes_per_s"][0]
    assert bus == (None if factor is None else pytest.approx(factor * 0.4e9))


def test_waiting_across_ranks_by_members_and_sequence(tmp_path):
    # windows shifted by one: rank 0 saw seq 1 and 2, rank 1 saw 2 and 3. Seq 2: rank 0 starts at
    # 100, rank 1 at 130, both end at 150: rank 0 waits 30, the transfer takes 20
    write(tmp_path, [nccl(0, 50, 1), nccl(100, 50, 2)], "rank0.json")
    write(tmp_path, [op("first", 0, 1), nccl(130, 20, 2), nccl(200, 9, 3)], "rank1.json")
    frame = wb.collectives(wb.open(tmp_path))
    assert frame.select("rank", "seq", "wait_ns", "transfer_ns").rows() == [
        (0, 1, None, None),
        (0, 2, 30 * US, 20 * US),
        (1, 2, 0, 20 * US),
        (1, 3, None, None),
    ]


def test_unknown_element_type_has_no_bandwidth(tmp_path):
    row = wb.collectives(wb.open(write(tmp_path, [nccl(0, 10, dtype="Strange")])))
    assert row["bytes"].to_list() == [None]
    assert row["bus_bytes_per_s"].to_list() == [None]


def two_ranks(tmp_path, first, second):
    write(tmp_path, first, "rank0.json")
    write(tmp_path, [op("first", 0, 1), *second], "rank1.json")
    return wb.open(tmp_path)


def test_a_wait_is_on_all_ranks_whatever_is_looked_at(tmp_path):
    job = two_ranks(tmp_path, [op("first", 0, 1), nccl(20, 90)], [nccl(90, 20)])
    alone = wb.collectives(job, rank=0)
    assert alone.select("wait_ns", "transfer_ns").rows() == [(70 * US, 20 * US)]
    cut = wb.collectives(job, within=(0, 50 * US))
    assert cut.select("rank", "wait_ns").rows() == [(0, 70 * US)]


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        ({"Process Group Name": "a"}, {"Process Group Name": "b"}),
        ({"Process Group Name": None}, {"Process Group Name": None}),
        ({"Process Group Ranks": "[0, 1]"}, {"Process Group Ranks": [1, 0]}),
    ],
)
def test_members_and_sequence_are_enough_to_know_a_collective(tmp_path, mine, theirs):
    job = two_ranks(tmp_path, [op("first", 0, 1), nccl(20, 90, **mine)], [nccl(90, 20, **theirs)])
    assert wb.collectives(job)["wait_ns"].to_list() == [70 * US, 0]


def test_two_groups_of_the_same_members_are_told_apart_by_name(tmp_path):
    def both(a, b):
        return [nccl(a, 20), nccl(b, 20, **{"Process Group Name": "tp"})]

    job = two_ranks(tmp_path, [op("first", 0, 1), *both(10, 40)], both(12, 47))
    frame = wb.collectives(job).select("rank", "group", "wait_ns").sort("group", "rank")
    assert frame.rows() == [(0, "0", 2 * US), (1, "0", 0), (0, "tp", 7 * US), (1, "tp", 0)]


def test_an_absurd_element_count_has_no_bytes(tmp_path):
    row = wb.collectives(wb.open(write(tmp_path, [nccl(0, 10, **{"In msg nelems": 2**62})])))
    assert row["bytes"].to_list() == [None]


@pytest.mark.parametrize(
    "theirs",
    [
        nccl(9000, 10, 4, name="ncclDevKernel_AllGather", **{"Process Group Name": "fsdp"}),
        nccl(25, 10, 4, name="ncclDevKernel_AllGather", **{"Process Group Name": "fsdp"}),
        nccl(9000, 10, 4, **{"Process Group Name": "fsdp"}),
    ],
    ids=["other and later", "other", "later"],
)
def test_lone_records_of_two_groups_are_not_one_collective(tmp_path, theirs):
    mine = nccl(20, 10, 4, **{"Process Group Name": "dp"})
    frame = wb.collectives(two_ranks(tmp_path, [op("first", 0, 1), mine], [theirs]))
    assert frame["wait_ns"].to_list() == [None, None]
    assert frame["transfer_ns"].to_list() == [None, None]
