"""The tree of modules: whose device and host time is whose, worked out by hand."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nsysfile import Export
from pycalls import function, module
from tinytrace import call, kernel, op, step, write

import workbench as wb
from workbench.analysis import calltree, needs

US = 1000
NODE = "autograd::engine::evaluate_function: "


def launched(name, ts, correlation, tid=1, **args):
    """An operator of 4 us that launches in its first."""
    return [op(name, ts, 4, tid, **args), call("cudaLaunchKernel", ts, 1, correlation, tid)]


def rows(found, *columns):
    return found.select(columns).rows()


@pytest.fixture
def training(tmp_path):
    """A module that calls another twice, and one that it shares; backward and a recomputation.

    thread 1   Net_0 10......................60   (aten::sum at 70: no module)
                 Block_0 12.....30   Act_0 40..50
                   Act_0 20..26
    thread 2   node of Block_0's mm, node of Act_0's call in the block, in which Block_0 runs again
    device     0:mm 100-110  1:relu(block) 105-125  2:relu(net) 130-140  3:sum 140-145
               backward 4:mm 200-230, 5:relu 210-215; again 6:mm 300-310
    """
    forward = [
        module("Net_0", 10, 50),
        module("Block_0", 12, 18),
        module("Act_0", 20, 6),
        module("Act_0", 40, 10),
        *launched("aten::mm", 14, 1, **{"Sequence number": 1}),
        *launched("aten::relu", 21, 2, **{"Sequence number": 2}),
        *launched("aten::relu", 42, 3, **{"Sequence number": 3}),
        *launched("aten::sum", 70, 4),
    ]
    back = {"Sequence number": 1, "Fwd thread id": 1}
    backward = [
        op(NODE + "MmBackward0", 80, 30, 2, **back),
        *launched("aten::mm", 82, 5, 2),
        module("Block_0", 90, 15, 2),
        *launched("aten::mm", 92, 7, 2, **{"Sequence number": 8}),
        op(NODE + "ReluBackward0", 120, 10, 2, **(back | {"Sequence number": 2})),
        *launched("aten::threshold_backward", 122, 6, 2),
    ]
    device = [(100, 10), (105, 20), (130, 10), (140, 5), (200, 30), (210, 5), (300, 10)]
    kernels = [kernel("k", ts, dur, i, stream=i) for i, (ts, dur) in enumerate(device, 1)]
    return wb.open(write(tmp_path, [step(1, 0, 135), *forward, *backward, *kernels]))


def test_device_time_of_a_module_and_below(training):
    found = wb.modules(training)
    assert rows(found, "path", "self_device_ns", "total_device_ns") == [
        ("Net_0", 0, 75 * US),  # all of below: 100-125, 130-140, 200-230, 300-310
        ("Net_0/Block_0", 50 * US, 65 * US),  # 100-110, 200-230, 300-310; with 105-125 and 210-215
        ("Net_0/Block_0/Act_0", 25 * US, 25 * US),  # 105-125 and its gradient 210-215
        ("Net_0/Act_0", 10 * US, 10 * US),  # 130-140: another place of the same instance
        (None, 5 * US, 5 * US),  # aten::sum
    ]


def test_the_rest_of_the_tree(training):
    found = wb.modules(training)
    assert rows(found, "name", "class", "depth", "parent", "calls")[:4] == [
        ("Net_0", "Net", 0, None, 1),
        ("Block_0", "Block", 1, "Net_0", 2),  # again at 90: where it stands in the forward pass
        ("Act_0", "Act", 2, "Net_0/Block_0", 1),
        ("Act_0", "Act", 1, "Net_0", 1),
    ]
    # busy: 100-125, 130-145, 200-230, 300-310 = 80
    assert found["device_share"].to_list()[:2] == [75 / 80, 65 / 80]
    assert found["marked_by"].unique().to_list() == ["module"]


def test_phases_of_a_module(training):
    found = wb.modules(training)
    split = rows(found, "forward_device_ns", "backward_device_ns", "recompute_device_ns")
    assert split == [
        (35 * US, 30 * US, 10 * US),
        (25 * US, 30 * US, 10 * US),
        (20 * US, 5 * US, 0),
        (10 * US, 0, 0),
        (5 * US, 0, 0),
    ]


def test_host_time_of_a_module(training):
    found = wb.modules(training)
    # Net 50 less Block 18 and Act 10; Block 18 less Act 6, and 15 when it runs again
    assert rows(found, "self_host_ns", "total_host_ns") == [
        (22 * US, 65 * US),  # 22 + 33 + 10
        (27 * US, 33 * US),
        (6 * US, 6 * US),
        (10 * US, 10 * US),
        (None, None),
    ]


def test_a_range_of_time_clips_device_time_and_picks_calls(training):
    found = wb.modules(training, window="all", within=(15 * US, 120 * US))
    assert rows(found, "path", "calls", "total_device_ns") == [
        ("Net_0", 0, 20 * US),  # 100-120
        ("Net_0/Block_0", 1, 20 * US),  # the second call begins in it
        ("Net_0/Block_0/Act_0", 1, 15 * US),  # 105-120
        ("Net_0/Act_0", 1, 0),
    ]


def test_a_graph_launch_counts_to_the_module_around_it(tmp_path):
    events = [
        module("Net_0", 0, 50),
        module("Graph_0", 10, 20),
        op("aten::view", 1, 1),
        call("cudaGraphLaunch", 12, 5, 1),
        kernel("k", 20, 5, 1),
        kernel("k", 25, 5, 1),
    ]
    found = wb.modules(wb.open(write(tmp_path, events)))
    assert rows(found, "path", "self_device_ns", "total_device_ns") == [
        ("Net_0", 0, 10 * US),
        ("Net_0/Graph_0", 10 * US, 10 * US),
    ]


def test_host_execution_has_modules_too(tmp_path):
    events = [module("Net_0", 0, 50), module("Linear_0", 10, 20), op("aten::addmm", 12, 10),
              op("aten::sum", 60, 5)]  # fmt: skip
    found = wb.modules(wb.open(write(tmp_path, events)))
    assert rows(found, "path", "total_device_ns") == [
        ("Net_0", 10 * US),
        ("Net_0/Linear_0", 10 * US),
        (None, 5 * US),
    ]
    assert found["device_share"].to_list() == pytest.approx([10 / 15, 10 / 15, 5 / 15])


def test_ranges_stand_for_modules_in_nsight(tmp_path):
    export = Export()
    export.nvtx("model", 0, 1000).nvtx("layer", 100, 300).nvtx("layer", 400, 600)
    export.call("cudaLaunchKernel", 150, 160, 1).call("cudaLaunchKernel", 700, 710, 2)
    export.kernel("k", 1000, 1400, 1).kernel("k", 1400, 1500, 2)
    found = wb.modules(wb.open(export.write(tmp_path)))
    columns = ("path", "class", "calls", "self_device_ns", "total_device_ns", "self_host_ns")
    assert rows(found, *columns) == [
        ("model", None, 1, 100, 500, 600),
        ("model/layer", None, 2, 400, 400, 400),
    ]
    assert found["marked_by"].unique().to_list() == ["range"]


def test_without_modules_there_is_a_reason_and_no_row(tmp_path):
    events = [function("train.py(1): main", 0, 50), op("aten::mm", 2, 4),
              call("cudaLaunchKernel", 3, 1, 1), kernel("k", 10, 5, 1)]  # fmt: skip
    trace = wb.open(write(tmp_path, events))
    assert wb.modules(trace).is_empty()
    (why,) = needs.unmet(trace, needs.of("workbench.analysis.modules"))
    assert why.startswith("modules are not recorded")


def test_ranks_of_a_job(tmp_path):
    for rank in (0, 1):
        events = [module("Net_0", 0, 50), op("aten::mm", 2, 4), call("cudaLaunchKernel", 3, 1, 1),
                  kernel("k", 10, 5 + rank, 1)]  # fmt: skip
        info = {"rank": rank, "world_size": 2, "backend": "nccl"}
        write(tmp_path, events, f"rank{rank}.json", baseTimeNanoseconds=100, distributedInfo=info)
    found = wb.modules(wb.open(tmp_path))
    assert rows(found, "rank", "path", "total_device_ns") == [
        (0, "Net_0", 5 * US),
        (1, "Net_0", 6 * US),
    ]


calls = st.lists(
    st.tuples(st.sampled_from("ABC"), st.integers(0, 30), st.integers(1, 20)), min_size=1
)


@given(calls)
def test_places_are_the_chains_of_names_around_calls(tmp_path_factory, made):
    events = [module(name, ts, dur) for name, ts, dur in made] + [op("aten::mm", 0, 60)]
    events += [op("aten::add", ts, 0, 1) for _, ts, _ in made]
    trace = wb.open(write(tmp_path_factory.mktemp("calls"), events), cache=False)
    tree = calltree.tree(trace)
    if not tree.name:
        assert trace.ops["module"].is_null().all()
        return
    names = [n.removeprefix("nn.Module: ") for n in _names(trace, tree)]
    chains = [_chain(tree.calls.parent, names, i) for i in range(len(names))]
    outside = {c for c in chains if len(c) == 1}
    moved = {c[0] for c in outside if _places(chains, c[0]) == 2}
    for chain, node in zip(chains, tree.node.tolist(), strict=True):
        path = tuple(tree.path[node].split("/"))
        assert path[-len(chain) :] == chain
        assert len(path) == len(chain) or chain[0] in moved
    depth_first = [tree.path[p] + "/" for p in tree.parent.tolist() if p >= 0]
    below = [path for path, p in zip(tree.path, tree.parent.tolist(), strict=True) if p >= 0]
    assert all(path.startswith(above) for path, above in zip(below, depth_first, strict=True))
    assert len(set(tree.path)) == len(tree.path)


def _names(trace, tree):
    found = trace.frames.filter(pl.col("module").is_not_null())
    key = {}
    for t, s, d, n in found.select("thread", "start_ns", "dur_ns", "module").rows():
        key.setdefault((t, s, s + d), []).append(n)
    at = zip(*(x.tolist() for x in tree.calls[:3]), strict=True)
    return [key[place].pop(0) for place in at]


def _chain(parent, names, i):
    return (*_chain(parent, names, parent[i]), names[i]) if parent[i] >= 0 else (names[i],)


def _places(chains, name):
    return len({c for c in chains if c[-1] == name})


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("file", "root", "share"),
    [
        ("tracelens/h100_bert_small_inference.json.gz", "BertLMHeadModel_0", 1.0),
        ("tracelens/mi300_vllm_piecewise_graph_execution.json.gz", "GptOssForCausalLM_0", 0.997),
        ("tracelens/mi300_xdit_sd3.5_inference.json.gz", "CLIPTextModelWithProjection_0", 0.003),
    ],
)
def test_recorded_modules(corpus, file, root, share):
    found = wb.modules(wb.open(corpus / "traces" / file))
    assert found["path"][0] == root
    assert found["device_share"][0] == pytest.approx(share, abs=5e-4)
    own = found["self_device_ns"].sum()
    roots = found.filter(pl.col("parent").is_null())["total_device_ns"].sum()
    assert roots <= own  # they differ where modules' kernels run at the same time


@pytest.mark.corpus
def test_recorded_recomputation_stands_in_its_module(corpus):
    name = "mi300_resnet_ddp_act_checkpoint_rank0_of_8.json.gz"
    found = wb.modules(wb.open(corpus / "traces" / "tracelens" / name))
    assert found.filter(pl.col("parent").is_null())["path"].to_list() == [
        "DistributedDataParallel_0",
        None,
    ]
    whole = wb.recompute(wb.open(corpus / "traces" / "tracelens" / name))["device_ns"][0]
    assert found["recompute_device_ns"][0] == whole


@pytest.mark.corpus
def test_recorded_ranges(corpus):
    found = wb.modules(wb.open(corpus / "traces" / "nsys" / "fuser_h100_schema3.16.sqlite"))
    assert found["marked_by"].unique().to_list() == ["range"]
    assert found["total_device_ns"].max() > 0
