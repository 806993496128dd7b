"""Communication by process group and parallelism, worked out by hand."""

import pytest
from tinytrace import kernel, write

import workbench as wb
from workbench.analysis.parallel import dimension

US = 1000
HEADER = {
    "distributedInfo": {
        "backend": "nccl",
        "rank": 0,
        "world_size": 4,
        "pg_config": [
            {"pg_name": "0", "pg_desc": "default_pg", "ranks": [0, 1, 2, 3]},
            {"pg_name": "1", "pg_desc": "mesh_tp", "ranks": [0, 1]},
            {"pg_name": "2", "pg_desc": "undefined", "ranks": [0, 2]},
        ],
    }
}


def nccl(ts, dur, group, stream, nelems=1000):
    args = {"Collective name": "allreduce", "In msg nelems": nelems, "Out msg nelems": nelems,
            "Group size": 2, "dtype": "Float", "Process Group Name": group}  # fmt: skip
    return kernel("ncclDevKernel_AllReduce_Sum", ts, dur, stream=stream, **args)


@pytest.fixture
def trace(tmp_path):
    """gemm 0-40; tp 10-60 and 100-110; group 2 50-90; one without a group 105-120."""
    unknown = kernel("ncclDevKernel_AllReduce_Sum", 105, 15, stream=9)
    events = [kernel("gemm", 0, 40), nccl(10, 50, "1", 20), nccl(100, 10, "1", 20),
              nccl(50, 40, "2", 21), unknown]  # fmt: skip
    return wb.open(write(tmp_path, events, **HEADER))


def test_groups(trace):
    # tp: 60 long, 10-40 hidden; of the rest 40-50 and 100-105 alone. 2: 40 long, 60-90 alone
    found = wb.groups(trace).select(
        "group", "dimension", "collectives", "bytes", "communication_ns", "overlap_ns",
        "exposed_ns", "alone_ns",
    )  # fmt: skip
    assert found.rows() == [
        ("2", None, 1, 4000, 40 * US, 0, 40 * US, 30 * US),
        ("1", "tensor", 2, 8000, 60 * US, 30 * US, 30 * US, 15 * US),
        (None, None, 1, None, 15 * US, 0, 15 * US, 10 * US),
    ]
    assert wb.groups(trace)["overlap_share"].to_list() == [0, 0.5, 0]


def test_one_group_is_the_whole(tmp_path):
    one = wb.open(write(tmp_path, [kernel("gemm", 0, 40), nccl(10, 50, "0", 20)], **HEADER))
    row = wb.groups(one).row(0, named=True)
    whole = wb.summary(one).row(0, named=True)
    assert row["dimension"] == "world"
    assert row["exposed_ns"] == row["alone_ns"] == whole["exposed_communication_ns"]
    assert row["overlap_ns"] == whole["overlap_ns"]


def test_stretches_and_collectives_name_the_parallelism(trace):
    # exposed: 40-90 (tp fills 20, group 2 all but 10 of it), 100-120 (tp 10, the other 15)
    stretches = wb.exposed(trace).sort("start_ns").select("group", "dimension").rows()
    assert stretches == [("2", None), (None, None)]
    by_start = wb.collectives(trace)["dimension"].to_list()
    assert by_start == ["tensor", None, "tensor", None]


@pytest.mark.parametrize(
    ("description", "meaning"),
    [
        ("mesh_tp", "tensor"),
        ("TENSOR_MODEL_PARALLEL_GROUP", "tensor"),
        ("PIPELINE_MODEL_PARALLEL_GROUP", "pipeline"),
        ("mesh_dp_shard_cp", "context+data"),
        ("EXPERT_DATA_PARALLEL_GROUP", "expert+data"),
        ("default_pg", "world"),
        ("undefined", None),
        ("http_pool", None),
        (None, None),
    ],
)
def test_dimension(description, meaning):
    assert dimension(description) == meaning


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("name", "groups"),
    [
        ("hta/nccl_args_resnet_a100_rank0_of_2.json.gz", [("0", "world")]),
        ("tracelens/mi300_resnet_ddp_act_checkpoint_rank0_of_8.json.gz",
         [("0", "world"), (None, None)]),
        ("param/dlrm_v100_8ranks", [(None, None)] * 8),
    ],
)  # fmt: skip
def test_other_makers(corpus, name, groups):
    source = wb.open(corpus / "traces" / name)
    found = wb.groups(source, window="all")
    assert sorted(found.select("group", "dimension").rows(), key=str) == sorted(groups, key=str)
    whole = wb.summary(source, window="all")["exposed_communication_ns"].sum()
    assert found["alone_ns"].sum() <= whole <= found["exposed_ns"].sum()


def test_what_is_alone_of_three_groups_and_beside_compute(tmp_path):
    # groups 1: 0-30, 2: 10-40, 3: 20-60, and a gemm 45-50: alone are 0-10 of 1 and, of 3, 40-45
    # and 50-60; of 2 nothing, for 10-30 is beside 1 and 30-40 beside 3
    events = [nccl(0, 30, "1", 20), nccl(10, 30, "2", 21), nccl(20, 40, "3", 22),
              kernel("gemm", 45, 5)]  # fmt: skip
    found = wb.groups(wb.open(write(tmp_path, events)), window="all")
    measured = found.select("group", "exposed_ns", "alone_ns").sort("group").rows()
    assert measured == [("1", 30 * US, 10 * US), ("2", 30 * US, 0), ("3", 35 * US, 15 * US)]
