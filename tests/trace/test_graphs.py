"""Execution graphs without times: PyTorch's execution trace and Chakra's two forms.

The program by hand (ids in brackets): step 3 [3] holds aten::rand [4] with aten::empty [5] (makes
tensor 60) and aten::uniform_ [8] (takes and gives 60); then aten::mm [10] takes 60 twice and gives
70; a backward node [12] on thread 2 holds aten::mul [13], which takes 70 and gives 80.
"""

import gzip
import json

import polars as pl
import pytest
from mutations import assert_opens_or_is_refused
from tinytrace import call, kernel
from tinytrace import write as write_profile
from wiremade import message, stream

import workbench as wb
from workbench import show
from workbench.errors import InputError, NotATraceError, SchemaError
from workbench.trace import schema
from workbench.trace.open import open_source

F = "Tensor(float)"


def tensor(number, device="cuda:0"):
    return [number, number + 1, 0, 12, 4, device]


# id, name, parent, tid, inputs, shapes, types, outputs, more
PROGRAM = [
    (
        5,
        "aten::empty",
        4,
        1,
        [[3, 4], 6],
        [[[], []], []],
        ["GenericList[Int,Int]", "Int"],
        [60],
        {},
    ),
    (8, "aten::uniform_", 4, 1, [tensor(60), 0.0], [[3, 4], []], [F, "Double"], [60], {}),
    (4, "aten::rand", 3, 1, [[3, 4]], [[[], []]], ["GenericList[Int,Int]"], [60], {}),
    (10, "aten::mm", 3, 1, [tensor(60), tensor(60)], [[3, 4], [4, 5]], [F, F], [70], {"seq_id": 7}),
    (3, "ProfilerStep#3", 2, 1, [], [], [], [], {}),
    (2, "[pytorch|profiler|execution_trace|thread]", 1, 1, [], [], [], [], {}),
    (13, "aten::mul", 12, 2, [tensor(70), 2], [[3, 5], []], [F, "Int"], [80], {"fw_tid": 1}),
    (12, "autograd::engine::evaluate_function: MmBackward0", 11, 2, [], [], [], [], {}),
    (11, "[pytorch|profiler|execution_trace|thread]", 1, 2, [], [], [], [], {}),
    (1, "[pytorch|profiler|execution_trace|process]", 1, 0, [], [], [], [], {}),
]


def nodes_of(schema_version):
    for number, name, parent, tid, inputs, shapes, types, outputs, more in PROGRAM:
        said = {"rf_id": number + 100, "seq_id": -1, "tid": tid, "fw_tid": 0} | more
        out = [tensor(t) for t in outputs]
        if schema_version.startswith("1.0"):
            yield {"name": name, "id": number, "parent": parent, **said, "op_schema": "",
                   "inputs": inputs, "input_shapes": shapes, "input_types": types, "outputs": out,
                   "output_shapes": [[3, 4]] * len(out),
                   "output_types": [F] * len(out)}  # fmt: skip
        else:
            taken = {"values": inputs, "shapes": shapes, "types": types, "strides": shapes}
            given = {"values": out, "shapes": [[3, 4]] * len(out), "types": [F] * len(out)}
            attrs = [{"name": k, "type": "uint64", "value": v} for k, v in said.items()]
            yield {"id": number, "name": name, "ctrl_deps": parent, "inputs": taken,
                   "outputs": given | {"strides": []}, "attrs": attrs}  # fmt: skip


def torch_trace(folder, version="1.0.1", nodes=None, name="et.json"):
    whole = {"schema": version, "pid": 9, "time": "2023-07-14 11:53:07", "start_ts": 5}
    whole |= {"nodes": list(nodes_of(version)) if nodes is None else nodes, "finish_ts": 6}
    path = folder / name
    path.write_text(json.dumps(whole))
    return path


@pytest.fixture(params=["1.0.1", "1.1.1-chakra.0.0.4"])
def trace(request, tmp_path):
    return wb.open(torch_trace(tmp_path, request.param))


def names(trace):
    return trace.ops["name"].cast(pl.String).to_list()


def edges(trace):
    name = names(trace)
    return {(name[op], name[on], kind) for op, on, kind in trace.dependencies.rows()}


def test_operators_stand_in_the_order_in_which_they_began(trace):
    ops = trace.ops
    assert names(trace)[2:] == [
        "ProfilerStep#3", "aten::rand", "aten::empty", "aten::uniform_", "aten::mm",
        "[pytorch|profiler|execution_trace|thread]",
        "autograd::engine::evaluate_function: MmBackward0", "aten::mul",
    ]  # fmt: skip
    assert ops["parent"].to_list() == [None, 0, 1, 2, 3, 3, 2, 0, 7, 8]
    assert ops["depth"].to_list() == [0, 1, 2, 3, 4, 4, 3, 1, 2, 3]
    assert ops["sequence"].to_list() == [None] * 6 + [7] + [None] * 3
    assert ops["external_id"].to_list() == [101, 102, 103, 104, 105, 108, 110, 111, 112, 113]
    assert [t.tid for t in trace.meta.threads] == [0, 1, 2]


def test_times_are_unknown_and_the_trace_says_so(trace):
    assert not trace.meta.timed
    for column in ("start_ns", "dur_ns", "self_ns"):
        assert trace.ops[column].null_count() == 10
    assert "no times" in trace.meta.device_reason


def test_data_dependencies_go_to_the_last_to_end_with_the_tensor(trace):
    # uniform_ runs inside rand, so only empty had ended; for mm it is rand as a whole
    assert edges(trace) == {
        ("aten::uniform_", "aten::empty", "data"),
        ("aten::mm", "aten::rand", "data"),
        ("aten::mul", "aten::mm", "data"),
    }


def test_steps_and_phases_follow_from_the_tree(trace):
    found = dict(zip(names(trace), trace.ops.select("step", "phase").rows(), strict=True))
    assert found["aten::mm"] == (3, "forward")
    assert found["aten::mul"] == (None, "backward")


def test_shapes_and_types_are_in_the_profilers_words(trace):
    of = dict(
        zip(names(trace), trace.ops.select("input_dims", "input_types", "concrete_inputs").rows(),
            strict=True)
    )  # fmt: skip
    assert of["aten::mm"] == ("[[3,4],[4,5]]", '["float","float"]', '["",""]')
    assert of["aten::empty"] == ("[[],[]]", '["ScalarList","Scalar"]', '["[3, 4]","6"]')
    assert of["aten::mul"] == ("[[3,5],[]]", '["float","Scalar"]', '["","2"]')


def test_the_flops_of_its_products_are_known(trace):
    from workbench.costs import models

    costs = models.operators(trace)
    # (3 x 4) by (4 x 5): 2 * 3 * 4 * 5
    assert costs.filter(pl.col("model") == "matmul")["flops"].to_list() == [120]


def test_every_name_can_be_shown(trace):
    for name in show.names():
        found = show.frame(trace, name, show.Choice())
        about = show.about(trace, name, show.Choice())
        assert found.height or "no times" in about["reason"]
    assert wb.summary(trace).row(0, named=True)["busy_ns"] is None


def test_operators_are_counted_and_their_times_are_null(trace):
    row = wb.ops(trace).filter(pl.col("name") == "aten::mm").row(0, named=True)
    assert row["calls"] == 1
    assert {v for n, v in row.items() if n.endswith("_ns")} == {None}
    assert wb.ops(trace, step=(3, 3))["calls"].sum() == 5


def test_the_timeline_of_a_graph_is_empty_and_no_crash(trace):
    from workbench.views.trace_lanes import activity_lanes

    assert len(activity_lanes(trace).start) == 0


def test_a_timed_reader_may_not_leave_times_out():
    ops = schema.conform("ops", pl.DataFrame({"id": [0], "name": ["a"], "thread": [0], "depth": [0],
                                              "phase": ["other"]}))  # fmt: skip
    schema.check("ops", ops, "test", timed=False)
    with pytest.raises(SchemaError, match="start_ns"):
        schema.check("ops", ops, "test")


PARAM = ["Tensor(float)", "Int", "Int", "Int", "String", "GenericList[]"]


def comm(number, inputs, types, **attrs):
    shapes = [[2, 3]] + [[]] * (len(inputs) - 1) if types[0] != "Int" else [[]] * len(inputs)
    return {"name": "record_param_comms", "id": number, "parent": 1, "tid": 1, "inputs": inputs,
            "input_shapes": shapes, "input_types": types, "outputs": [tensor(9)],
            "output_shapes": [[4, 3]], "output_types": [F],
            "attrs": [{"name": k, "value": v} for k, v in attrs.items()]}  # fmt: skip


def test_collectives(tmp_path):
    said = {"collective_name": "allreduce", "dtype": "BFloat16", "in_msg_nelems": 8,
            "out_msg_nelems": 8, "pg_name": "1", "pg_size": 2, "global_rank_start": 1,
            "global_rank_stride": 2}  # fmt: skip
    nodes = [
        comm(5, [tensor(1), 40, 94428220485728, 1, "all_gather", []], PARAM),
        comm(6, [40, 0, 1, "wait", []], PARAM[1:]),
        comm(7, [tensor(1), 41, ["1", "tp"], 0, "allreduce", []], PARAM, **said),
    ]
    trace = wb.open(torch_trace(tmp_path, nodes=nodes))
    columns = ["name", "group", "group_size", "members", "seq", "dtype", "in_elements",
               "out_elements", "bytes"]  # fmt: skip
    assert trace.collectives.select(pl.col(columns)).rows() == [
        # 2 x 3 floats in, 4 x 3 out: the larger counts
        ("all_gather", None, None, None, 40, "float", 6, 12, 48),
        ("all_reduce", "1", 2, "[1,3]", 41, "BFloat16", 8, 8, 16),
    ]
    assert trace.meta.rank == 1  # alone in its group at 1, and first of the group 1, 3
    shown = wb.collectives(trace)
    assert shown["bytes"].to_list() == [48, 16]
    assert shown["start_ns"].null_count() == shown["bus_bytes_per_s"].null_count() == 2


def test_ranks_that_do_not_agree_are_unknown(tmp_path):
    nodes = [comm(i, [tensor(1), 1, 0, i, "allreduce", []], PARAM) for i in (5, 6)]
    assert wb.open(torch_trace(tmp_path, nodes=nodes)).meta.rank is None


def test_crooked_graphs(tmp_path):
    # 2 and 3 are each other's parent, 4 its own, 5's is missing; 4 comes twice
    nodes = [
        {"id": i, "name": f"n{i}", "parent": p} for i, p in [(2, 3), (3, 2), (4, 4), (5, 9), (4, 2)]
    ]
    trace = wb.open(torch_trace(tmp_path, nodes=[*nodes, {"name": "no id"}]))
    assert trace.ops["parent"].to_list() == [None, 0, None, None]
    assert dict(trace.problems.select("code", "count").rows()) == {
        "bad_record": 1,
        "duplicate_node": 1,
    }


def test_a_chain_of_thirty_thousand_is_no_trap(tmp_path):
    nodes = [{"id": i, "name": "a", "parent": i - 1, "inputs": [tensor(1)], "outputs": [tensor(1)]}
             for i in range(1, 30_000)]  # fmt: skip
    trace = wb.open(torch_trace(tmp_path, nodes=nodes))
    assert trace.ops["depth"].max() == 29_998
    assert trace.dependencies.height == 0  # all are open until the last one ends


@pytest.mark.parametrize("text", ['{"nodes": []}', '{"nodes": [1, 2]}', '{"nodes": {"a": 1}}'])
def test_what_only_looks_like_one_is_no_trace(tmp_path, text):
    path = tmp_path / "g.json"
    path.write_text(text)
    with pytest.raises(NotATraceError, match="no node of an execution trace"):
        wb.open(path)


def test_graphs_beside_recordings_of_the_same_ranks_are_passed_over(tmp_path):
    for rank in (0, 1):
        work = [call("cudaLaunchKernel", 0, 1, 1), kernel("k", 0, 5, 1)]
        write_profile(tmp_path, work, f"kineto_rank{rank}.json")
        torch_trace(tmp_path, name=f"et_rank{rank}.json")
    job = open_source(tmp_path)
    assert [t.meta.format for t in job.ranks] == ["pytorch-profiler"] * 2
    (note,) = job.problems.filter(pl.col("code") == "other_files").rows(named=True)
    why = "a recording of the kind pytorch-execution-trace"
    assert note["count"] == 2
    assert note["first_example"] == f"et_rank0.json ({why}), et_rank1.json ({why})"


def test_a_folder_of_graphs_is_a_job(tmp_path):
    for rank in (0, 1):
        torch_trace(tmp_path, name=f"et_rank{rank}.json")
    job = open_source(tmp_path)
    assert [t.meta.rank for t in job.ranks] == [0, 1]
    assert job.dependencies.height == 6
    assert wb.ops(job)["rank"].unique().sort().to_list() == [0, 1]


@pytest.mark.parametrize("version", ["1.0.1", "1.1.1"])
def test_any_damage_to_an_execution_trace(tmp_path, version):
    data = torch_trace(tmp_path, version).read_bytes()
    assert assert_opens_or_is_refused(tmp_path / "et.json", data, is_json=True) > 10


# ---- Chakra: node 1 (thread 5, 30 us), 2 on the device after it (7 us, an all-reduce of 64 bytes)


def attr(name, field, value):
    return (10, ((1, name), (field, value)))


def chakra(*, packed=True, metadata_field=2, extra=()):
    about = tuple((metadata_field, ((1, k), (f, v))) for k, f, v in
                  [("schema", 29, "1.0.1"), ("pid", 13, 9)])  # fmt: skip
    io = ((1, "[[3, 4, 0, 6, 4, 'cuda:0']]"), (2, "[[2, 3]]"), (3, "['Tensor(float)']"))
    one = message((1, 216), (2, "aten::mm"), (3, 4), (4, [3]), (7, 30), (8, io),
                  attr("is_cpu_op", 27, 1), attr("tid", 9, 5), attr("rf_id", 9, 2),
                  attr("seq_id", 9, -1))  # fmt: skip
    data = [(5, [216, 216])] if packed else [(5, 216), (5, 216)]
    two = message((1, 430), (2, "ncclKernel"), (3, 7), (4, [216]), *data, (7, 7),
                  attr("is_cpu_op", 27, 0), attr("comm_type", 9, 0),
                  attr("comm_size", 9, 64))  # fmt: skip
    return stream(message(*about), one, two, *extra)


@pytest.mark.parametrize("options", [{}, {"packed": False}, {"metadata_field": 1}])
def test_chakra(tmp_path, options):
    path = tmp_path / "chakra.0.et"
    path.write_bytes(gzip.compress(chakra(**options)))
    trace = wb.open(path)
    columns = ["name", "thread", "start_ns", "dur_ns", "external_id", "sequence"]
    assert trace.ops.select(pl.col(columns)).rows() == [
        ("aten::mm", 0, None, 30_000, 2, None),
        ("ncclKernel", None, None, 7_000, None, None),
    ]
    assert trace.ops["input_dims"].to_list() == ["[[2,3]]", None]
    assert edges(trace) == {
        ("ncclKernel", "aten::mm", "control"), ("ncclKernel", "aten::mm", "data"),
    }  # fmt: skip
    assert trace.dependencies.height == 2  # 216 stands twice in one list
    (lost,) = trace.problems.rows(named=True)
    assert (lost["code"], lost["count"]) == ("missing_node", 1)
    assert trace.collectives.select("name", "bytes", "dur_ns").rows() == [("all_reduce", 64, 7_000)]
    assert trace.meta.producer == {"schema": "1.0.1"}
    assert trace.meta.threads[0].pid == 9


def test_durations_of_host_and_device_nodes_are_kept_apart(tmp_path):
    path = tmp_path / "chakra.0.et"
    path.write_bytes(chakra())
    rows = wb.ops(wb.open(path)).select("name", "self_device_ns", "total_host_ns").rows()
    assert rows == [("ncclKernel", 7_000, None), ("aten::mm", None, 30_000)]


def test_starts_count_when_every_node_has_one(tmp_path):
    whole = stream(message((2, ((1, "schema"), (29, "1")))), message((1, 1), (2, "a"), (6, 50)),
                   message((1, 2), (2, "b"), (6, 60)))  # fmt: skip
    path = tmp_path / "c.et"
    path.write_bytes(whole)
    assert wb.open(path).ops["start_ns"].to_list() == [50_000, 60_000]


def test_a_cut_chakra_stream_is_refused(tmp_path):
    path = tmp_path / "c.et"
    path.write_bytes(chakra()[:-5])
    with pytest.raises(InputError, match="damaged Chakra file"):
        wb.open(path)


def test_any_damage_to_a_chakra_stream(tmp_path):
    assert assert_opens_or_is_refused(tmp_path / "c.et", chakra(), is_json=False) > 10


def chakra_json(folder):
    def node(number, name, control, data, **more):
        return {"Id": number, "Name": name, "NodeType": 4, "ctrlDeps": control, "data_deps": data,
                "runtime": 30, "is_cpu_op": number == 1, **more}  # fmt: skip

    graph = [node(1, "aten::mm", [], []), node(2, "gemm", [9], [1]),
             node(3, "send", [1], [2], NodeType=5, comm_size=128)]  # fmt: skip
    path = folder / "graph.json"
    path.write_text(json.dumps({"workload_graph": graph, "workload_name": "w", "ngpus": 8}))
    return path


def test_chakra_json(tmp_path):
    trace = wb.open(chakra_json(tmp_path))
    assert trace.ops.select("name", "thread", "dur_ns").rows() == [
        ("aten::mm", 0, 30_000), ("gemm", None, 30_000), ("send", None, 30_000),
    ]  # fmt: skip
    assert edges(trace) == {
        ("gemm", "aten::mm", "data"), ("send", "aten::mm", "control"), ("send", "gemm", "data"),
    }  # fmt: skip
    assert trace.collectives.select("name", "bytes").rows() == [("send", 128)]


def test_any_damage_to_chakra_json(tmp_path):
    data = chakra_json(tmp_path).read_bytes()
    assert assert_opens_or_is_refused(tmp_path / "graph.json", data, is_json=True) > 10


ET = {
    "hta/execution_trace_simple_add_et.json.gz": (38, 0),
    "param/linear_et.json.gz": (931, 0),
    "param/hf_GPT2_et.json.gz": (27_156, 0),
    "param/pt2_et.json.gz": (20, 0),
    "param/resnet_1gpu_et.json.gz": (14_392, 21),
    **{f"param/dlrm_v100_8ranks/execution_trace_rank{r}.json.gz": (1_675, 8) for r in range(8)},
}


@pytest.mark.corpus
@pytest.mark.parametrize("name", ET, ids=str)
def test_recorded_execution_traces(corpus, name):
    trace = wb.open(corpus / "traces" / name)
    assert (trace.ops.height, trace.collectives.height) == ET[name]
    assert trace.problems.height == 0
    if "rank" in name:
        assert trace.meta.rank == int(name[-9])


@pytest.mark.corpus
def test_a_graph_and_the_recording_of_the_same_run_agree(corpus):
    folder = corpus / "traces/hta"
    graph = wb.open(folder / "execution_trace_simple_add_et.json.gz")
    recorded = wb.open(folder / "execution_trace_simple_add_kineto.json.gz")
    of = dict(
        recorded.ops.select("external_id", pl.col("name").cast(pl.String)).drop_nulls().rows()
    )
    ours = dict(graph.ops.select("external_id", pl.col("name").cast(pl.String)).drop_nulls().rows())
    both = of.keys() & ours.keys()
    assert len(both) == 28  # every operator of the recording
    assert all(of[k] == ours[k] for k in both)


@pytest.mark.corpus
def test_dlrm_ranks_and_their_graphs_in_one_folder(corpus):
    job = open_source(corpus / "traces/param/dlrm_v100_8ranks")
    assert [t.meta.rank for t in job.ranks] == list(range(8))
    assert {t.meta.format for t in job.ranks} == {"pytorch-profiler"}
    notes = job.problems.filter(pl.col("code") == "other_files")
    assert notes["count"].to_list() == [8]


@pytest.mark.corpus
def test_recorded_chakra(corpus):
    trace = wb.open(corpus / "traces/chakra/chakra.0.et.gz")
    ops = trace.ops
    assert ops.height == 3_664
    assert ops["thread"].null_count() == 1_216  # kernels and copies on the device
    assert ops["dur_ns"].sum() == 381_795_000
    assert ops.filter(pl.col("thread").is_null())["dur_ns"].sum() == 329_543_000
    assert trace.collectives["bytes"].to_list()[:3] == [212_480, 424, 8_196_000]
    assert dict(trace.problems.select("code", "count").rows()) == {"missing_node": 1_277}
    small = wb.open(corpus / "traces/chakra/small_chakra.0.json")
    assert (small.ops.height, small.ops["dur_ns"].sum()) == (7, 695_000)
