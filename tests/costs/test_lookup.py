import polars as pl
import pytest
from costs.made import op_row, trace_of

from workbench import costs
from workbench.costs.models import prices

SPLIT = "fbgemm::split_embedding_codegen_lookup_rowwise_adagrad_function"
NODE = "torch::autograd::CppNode<SplitLookupFunction_rowwise_adagrad_Op>"


def split(number, lookups, bags, tables, *, table, rows, concrete=None, weighted=False):
    """A lookup of `tables` tables in one flat tensor, with a row-wise state."""
    dims = [[0], [table], [0], [0, 0], [tables], [tables], [tables + 1], [], [], [tables + 1], [],
            [lookups], [tables * bags + 1], [], [lookups] if weighted else [], [], [0], [], [], [],
            [rows], [0], [tables], [tables], [], []]  # fmt: skip
    types = ["float"] * 4 + ["int", "long", "int", "Scalar", "Scalar", "long", "Scalar", "long",
             "long", "Scalar", "float" if weighted else "", "", "int", "Scalar", "Scalar", "Scalar",
             "float", "float", "int", "long", "Scalar", "Scalar"]  # fmt: skip
    return op_row(number, SPLIT, None, 0, dims, types, None, concrete)


def arguments(total, widest, pooling="0"):
    return [""] * 7 + [str(total), str(widest)] + [""] * 4 + [pooling] + [""] * 12


def node(number, forward, grad):
    return op_row(number, NODE, None, 0, [grad], ["float"]) | {"forward": forward}


def only(frame, op):
    return frame.filter(pl.col("op") == op).to_dicts()[0]


def test_tables_of_one_width():
    # 3 tables of 16, 4 bags: 30 lookups * 16 adds; indices 240 + offsets 13 * 8 + rows 30 * 64;
    # output 4 * 48 floats
    op = split(0, 30, 4, 3, table=4800, rows=300, concrete=arguments(48, 16))
    found = only(costs.operators(trace_of([op])), 0)
    assert (found["flops"], found["model"]) == (480, "embedding")
    assert (found["read_bytes"], found["write_bytes"]) == (240 + 104 + 1920, 768)


def test_sample_weights_multiply_and_are_read():
    op = split(0, 30, 4, 3, table=4800, rows=300, concrete=arguments(48, 16), weighted=True)
    found = only(costs.operators(trace_of([op])), 0)
    assert (found["flops"], found["read_bytes"]) == (960, 2264 + 120)


def test_without_pooling_each_lookup_writes_its_row():
    op = split(0, 30, 4, 3, table=4800, rows=300, concrete=arguments(48, 16, "2"))
    found = only(costs.operators(trace_of([op])), 0)
    assert (found["flops"], found["write_bytes"]) == (0, 30 * 16 * 4)


def test_more_lookups_than_rows_read_the_tables_once():
    op = split(0, 3000, 4, 3, table=4800, rows=300, concrete=arguments(48, 16))
    assert only(costs.operators(trace_of([op])), 0)["read_bytes"] == 24_000 + 104 + 19_200


def test_tables_of_several_widths_have_bytes_and_no_sum():
    op = split(0, 30, 4, 3, table=4800, rows=300, concrete=arguments(48, 32))
    found = only(prices(trace_of([op])), 0)
    assert (found["flops"], found["read_bytes"], found["write_bytes"]) == (None, 2264, 768)
    assert "width" in found["unknown"]
    assert found["reason"] is None


def test_an_old_lookup_has_its_width_in_the_gradient_and_its_backward_the_indices():
    # node > grad (4, 48); the operator it points to is the one right before the lookup
    trace = trace_of([
        op_row(0, "aten::zero_", None, 0, [[1]], ["float"]),
        split(1, 30, 4, 3, table=4800, rows=300),
        node(2, 0, [4, 48]),
    ])  # fmt: skip
    frame = prices(trace)
    forward, backward = only(frame, 1), only(frame, 2)
    assert (forward["flops"], forward["read_bytes"], forward["write_bytes"]) == (None, 2264, 768)
    # rows: 30 * 64 bytes read and written; state: a tenth (30 * 16 of 4800) of 300 floats
    assert backward["read_bytes"] == 768 + 240 + 104 + 1920 + 120
    assert backward["write_bytes"] == 1920 + 120
    assert backward["flops"] is None


def test_one_table_has_the_width_of_its_rows():
    # 1000 rows of 96: 50 lookups * 96 * 4 bytes, 400 of indices, 40 of offsets; whether they are
    # added up in bags only the arguments or the backward would tell
    found = only(prices(trace_of([split(0, 50, 4, 1, table=96_000, rows=1000)])), 0)
    assert (found["read_bytes"], found["reason"]) == (440 + 19_200, None)
    assert (found["flops"], found["write_bytes"]) == (None, None)
    assert "added up" in found["unknown"]


def test_the_dense_form_writes_a_gradient_of_the_whole_table():
    # 2 tables, 16 bags, total width 32 of the gradient; 40 lookups; 112 elements of tables
    dims = [[112], [2], [3], [], [], [3], [], [40], [33], [], [], [], []]
    types = ["float", "long", "int", "", "", "long", "", "long", "long", "", "", "", ""]
    trace = trace_of([
        op_row(0, "aten::to", None, 0),
        op_row(1, "fbgemm::dense_embedding_codegen_lookup_function", None, 0, dims, types),
        op_row(2, "torch::autograd::CppNode<SplitLookupFunction_Dense_Op>", None, 0,
               [[16, 32]], ["float"]) | {"forward": 0},
    ])  # fmt: skip
    frame = prices(trace)
    # 40 lookups of 16 would be 640 elements: the whole table, 112
    assert only(frame, 1)["read_bytes"] == 320 + 264 + 448
    assert only(frame, 2)["read_bytes"] == 2048 + 320 + 264
    assert only(frame, 2)["write_bytes"] == 448


@pytest.mark.parametrize(
    ("rows", "says"),
    [([split(0, 30, 4, 3, table=4800, rows=300)], "width"),
     ([split(0, 30, 4, 3, table=0, rows=300, concrete=arguments(48, 16))], "tables"),
     ([op_row(0, "x"), node(1, 0, [4, 48])], "lookup"),
     ([op_row(0, "x"), split(1, 30, 4, 3, table=4800, rows=300), node(2, 0, [5, 48])], "width")],
)  # fmt: skip
def test_what_is_not_known_says_why(rows, says):
    frame = prices(trace_of(rows))
    assert says in frame["reason"][-1]
    assert frame["read_bytes"][-1] is None


def test_a_node_points_to_no_lookup_of_another_kind_or_thread():
    other = node(2, 0, [4, 48]) | {"name": NODE.replace("rowwise_adagrad", "sgd")}
    trace = trace_of([op_row(0, "x"), split(1, 30, 4, 3, table=4800, rows=300), other])
    assert prices(trace)["reason"].null_count() == 0
    away = split(1, 30, 4, 3, table=4800, rows=300) | {"thread": 1}
    trace = trace_of([op_row(0, "x"), away, node(2, 0, [4, 48])])
    assert prices(trace)["reason"].null_count() == 0
