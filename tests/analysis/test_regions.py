"""What torch.compile made, worked out by hand and on recordings."""

import pytest
from tinytrace import call, kernel, mark, op, step, write

import workbench as wb
from workbench.analysis import compiled, needs

US = 1000
GRAPH = "## Call CompiledFxGraph fabc ##"


@pytest.fixture
def trace(tmp_path):
    """Two frames of compiled code with an eager operator between, a recompilation, a backward.

    host 1   lookup 0-4   region 0/0 10......30   mul 40-44   region 1/0 50..60   region 0/1 70..80
                            graph 12....28
    host 2   CompiledFunctionBackward 90...100
    device   0/0: triton 100-110, gemm 110-130; mul 130-140; 1/0: 140-145; 0/1: 150-160;
             backward 155-175; replayed graph: unknown 180-190 and triton 190-195
    """
    events = [
        step(1, 0, 200),
        op("TorchDynamo Cache Lookup", 0, 4),
        op("Torch-Compiled Region: 0/0", 10, 20),
        mark(GRAPH, 12, 16),
        op("triton_poi_fused_add_0", 14, 4, kernel_backend="triton", kernel_file="a.py"),
        op("aten::mm", 20, 4),
        op("aten::mul", 40, 4),
        op("Torch-Compiled Region: 1/0", 50, 10),
        op("Torch-Compiled Region: 0/1", 70, 10),
        op("CompiledFunctionBackward", 90, 10, 2),
        *(call("cudaLaunchKernel", t, 1, c) for c, t in enumerate((15, 21, 41, 52, 72), 1)),
        call("cudaLaunchKernel", 92, 1, 6, 2),
        call("cudaGraphLaunch", 120, 5, 7),
        kernel("triton_poi_fused_add_0", 100, 10, 1),
        kernel("gemm", 110, 20, 2),
        kernel("mul", 130, 10, 3),
        kernel("k", 140, 5, 4),
        kernel("k", 150, 10, 5),
        kernel("k", 155, 20, 6, stream=8),
        kernel("gemm", 180, 10, 7),
        kernel("triton_red_fused_sum_1", 190, 5, 7),
    ]
    return wb.open(write(tmp_path, events))


def test_regions(trace):
    found = wb.regions(trace)
    columns = ("kind", "name", "calls", "count", "device_ns", "host_ns")
    assert found.select(columns).rows() == [
        ("compiled", None, None, 6, 65 * US, 50 * US),  # 100-130, 140-145, 150-175, 190-195
        ("eager", None, None, 1, 10 * US, None),
        ("unknown", None, None, 1, 10 * US, None),  # of the replayed graph
        ("region", "Torch-Compiled Region: 0/0", 1, 2, 30 * US, 20 * US),
        ("region", "Torch-Compiled Region: 0/1", 1, 1, 10 * US, 10 * US),
        ("region", "Torch-Compiled Region: 1/0", 1, 1, 5 * US, 10 * US),
        ("graph", GRAPH, 1, 2, 30 * US, 16 * US),
        ("function", "CompiledFunctionBackward", 1, 1, 20 * US, 10 * US),
        ("overhead", "TorchDynamo Cache Lookup", 1, 0, 0, 4 * US),
        ("kernel", "triton_poi_fused_add_0", 1, 1, 10 * US, 4 * US),
        ("kernel", "triton_red_fused_sum_1", None, 1, 5 * US, None),
    ]
    # busy: 100-145, 150-175, 180-195 = 85
    assert found["device_share"].to_list()[:3] == pytest.approx([65 / 85, 10 / 85, 10 / 85])


def test_graph_breaks_and_recompilations(trace):
    found = wb.regions(trace).filter(kind="region")
    assert found.select("frame", "recompilation").rows() == [(0, 0), (0, 1), (1, 0)]
    others = wb.regions(trace).filter(kind="graph")
    assert others.select("frame", "recompilation").rows() == [(None, None)]


def test_where_a_generated_kernel_comes_from(trace):
    made = wb.regions(trace).filter(kind="kernel")
    assert made.select("backend", "file").rows() == [("triton", "a.py"), (None, None)]


def test_a_range_of_time(trace):
    found = wb.regions(trace, window="all", within=(60 * US, 135 * US))
    assert found.filter(kind="eager").select("count", "device_ns").rows() == [(1, 5 * US)]
    assert found.filter(kind="region").select("name", "calls", "device_ns").rows() == [
        ("Torch-Compiled Region: 0/0", 0, 30 * US),
        ("Torch-Compiled Region: 0/1", 1, 0),
    ]


def test_host_execution(tmp_path):
    events = [op("Torch-Compiled Region: 0/0", 0, 20), op("aten::mm", 5, 10),
              op("aten::add", 30, 5)]  # fmt: skip
    found = wb.regions(wb.open(write(tmp_path, events)))
    assert found.select("kind", "count", "device_ns").rows() == [
        ("compiled", 2, 20 * US),
        ("eager", 1, 5 * US),
        ("unknown", 0, 0),
        ("region", 2, 20 * US),
    ]


def test_without_compiled_code_there_is_a_reason_and_no_row(tmp_path):
    # what surrounds a graph that is not recorded says nothing of what was compiled
    events = [op("Pregraph bytecode", 0, 4), call("cudaLaunchKernel", 1, 1, 1),
              kernel("k", 5, 5, 1)]  # fmt: skip
    trace = wb.open(write(tmp_path, events))
    assert wb.regions(trace).is_empty()
    assert needs.unmet(trace, needs.of("workbench.analysis.regions"))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Torch-Compiled Region: 3/1", "region"),
        ("CompiledFxGraph", "graph"),
        ("CompiledFunction", "function"),
        ("autograd::engine::evaluate_function: CompiledFunctionBackward", None),
        ("CompiledFunctionality", None),
        ("aten::mm", None),
    ],
)
def test_kinds_of_marks(name, kind):
    assert compiled.kind_of(name) == kind


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("file", "compiled_share", "regions"),
    [
        ("tracelens/mi300_torch_compile_triton.json.gz", 1.0, [(0, 0, 1)]),
        ("tracelens/mi300_xdit_sd3.5_inference.json.gz", 0.881, [(0, 0, 4)]),
        ("hta/df_index_resolver_v100_rank1_of_2.json.gz", 0.938, []),
    ],
)
def test_recorded_compilations(corpus, file, compiled_share, regions):
    found = wb.regions(wb.open(corpus / "traces" / file))
    assert found["device_share"][0] == pytest.approx(compiled_share, abs=5e-4)
    marked = found.filter(kind="region")
    assert marked.select("frame", "recompilation", "calls").rows() == regions


@pytest.mark.corpus
def test_a_recorded_replay_is_not_taken_for_eager(corpus):
    name = "mi300_vllm_piecewise_graph_execution.json.gz"
    found = wb.regions(wb.open(corpus / "traces" / "tracelens" / name))
    share = dict(found.head(3).select("kind", "device_share").rows())
    assert share["unknown"] > 0.9
    assert 0.05 > share["eager"] > share["compiled"] > 0
