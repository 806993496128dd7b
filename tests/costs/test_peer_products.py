"""Every row of a peer's tables of products, convolutions and attention (TraceLens, 2025).

The same recorded arguments give the same FLOPs under `convention="tracelens"` and the same bytes,
but for the rows whose formula there is wrong, each named with the reason.
"""

import ast
import csv
import json

import polars as pl
import pytest

from workbench.costs.cost import convention
from workbench.costs.models import cost
from workbench.costs.shapes import parse

pytestmark = pytest.mark.corpus
TABLES = ("GEMM", "CONV_fwd", "SDPA_fwd")
FOLDERS = (
    "h100_bert_small_inference", "h100_owlv2_large_inference", "h100_qwen1.5_0.5b_inference",
    "mi300_bert_small_inference", "mi300_qwen1.5_0.5b_inference",
    "mi300_resnet_ddp_act_checkpoint_rank0_of_8", "mi300_sglang_qwen3_8b_decode",
    "mi300_torch_compile_triton", "mi300_vllm_piecewise_graph_execution",
    "mi300_xdit_sd3.5_inference",
)  # fmt: skip
NO_BIAS = (
    ([1, 128, 1024, 1024], [128, 128, 3, 3]), ([1, 512, 256, 256], [512, 512, 3, 3]),
    ([1, 256, 512, 512], [256, 256, 3, 3]), ([1, 256, 1024, 1024], [256, 256, 3, 3]),
    ([1, 512, 512, 512], [512, 512, 3, 3]), ([1, 256, 1024, 1024], [128, 256, 3, 3]),
    ([1, 512, 128, 128], [512, 512, 3, 3]), ([1, 512, 512, 512], [256, 512, 3, 3]),
    ([1, 256, 1024, 1024], [128, 256, 1, 1]), ([1, 128, 1024, 1024], [3, 128, 3, 3]),
    ([1, 512, 512, 512], [256, 512, 1, 1]), ([1, 16, 128, 128], [512, 16, 3, 3]),
)  # fmt: skip
"""Convolutions (input, filter) whose recorded arguments hold a bias that the peer does not see: its
`param: bias` says False, so it counts neither the adds nor the bytes of the bias."""


def rows(corpus, table):
    for folder in FOLDERS:
        path = corpus / "traces" / "tracelens" / "expected" / folder / f"{table}.csv"
        if path.exists():
            with path.open() as file:
                yield from csv.DictReader(file)


def recorded(row):
    """The four recorded columns as the profiler wrote them."""
    names = ("Input Dims_first", "Input type_first", "Input Strides_first", "Concrete Inputs_first")
    return [json.dumps(ast.literal_eval(row[name])) for name in names]


def ours(row):
    call = parse(*recorded(row))
    found = cost(row["name"], call)
    parts = ("flops", "epilogue_flops", "masked_flops", "recomputed_flops")
    frame = pl.DataFrame({p: [getattr(found, p)] for p in parts})
    flops = frame.select(convention("tracelens").flops())["flops"].item()
    return call, found, flops


def test_the_tables_are_those_that_we_know(corpus):
    counts = {table: sum(1 for _ in rows(corpus, table)) for table in TABLES}
    assert counts == {"GEMM": 89, "CONV_fwd": 35, "SDPA_fwd": 9}


@pytest.mark.parametrize("table", ["GEMM", "SDPA_fwd"])
def test_products_and_attention_are_equal(corpus, table):
    for row in rows(corpus, table):
        _, found, flops = ours(row)
        assert flops == round(float(row["GFLOPS_first"]) * 1e9), row["Input Dims_first"]
        moved = found.read_bytes + found.write_bytes
        assert moved == round(float(row["Data Moved (MB)_first"]) * 2**20), row["Input Dims_first"]


def test_convolutions_are_equal_but_for_unseen_biases(corpus):
    without = []
    for row in rows(corpus, "CONV_fwd"):
        call, found, flops = ours(row)
        moved = found.read_bytes + found.write_bytes
        dims = [list(call.tensor(i).dims) for i in range(2)]
        bias = call.optional(2)
        if bias is not None:
            assert row["param: bias"] == "False"
            without.append(tuple(dims))
            flops -= found.epilogue_flops
            moved -= bias.distinct_bytes
        assert flops == round(float(row["GFLOPS_first"]) * 1e9), dims
        assert moved == round(float(row["Data Moved (MB)_first"]) * 2**20), dims
    assert tuple(without) == NO_BIAS
