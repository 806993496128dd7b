"""A tree of times: where each cell lies, worked out by hand, and the picture itself."""

import holoviews as hv
import polars as pl
import pytest

from workbench.views import icicle

TREE = pl.DataFrame(
    {
        "depth": [0, 1, 2, 2, 1, 0, 1],
        "name": ["GPT", "Block_0", "Attention", "MLP", "Block_1", "Loss", "tiny"],
        "total_device_ns": [75_000, 40_000, 10_000, 20_000, 20_000, 25_000, 10],
    }
)


def test_children_stand_below_their_parent_from_its_left():
    # of 100 us: GPT 0-.75, Block_0 -.4 (Attention -.1, MLP -.3), Block_1 -.6, Loss .75-1
    found = icicle.cells(TREE)
    assert [round(v, 6) for v in found["x0"]] == [0, 0, 0, 0.1, 0.4, 0.75, 0.75]
    assert [round(v, 6) for v in found["x1"]] == [0.75, 0.4, 0.1, 0.3, 0.6, 1, 0.7501]
    assert found.row(3, named=True) == {
        "x0": pytest.approx(0.1), "x1": pytest.approx(0.3), "depth": 2, "name": "MLP",
        "path": "GPT / Block_0", "time": "20 us", "share": "20.0 %",
    }  # fmt: skip


def test_concurrent_children_are_narrowed_and_their_times_kept():
    # two children of 8 in a parent of 10: half of it each
    tree = pl.DataFrame({"depth": [0, 1, 1], "name": list("abc"), "total_device_ns": [10, 8, 8]})
    found = icicle.cells(tree)
    assert found.select("x0", "x1").rows() == [(0, 1), (0, 0.5), (0.5, 1)]
    assert found["time"].to_list() == ["10 ns", "8 ns", "8 ns"]


def test_the_picture_leaves_out_what_is_too_narrow_and_says_so():
    figure = hv.render(icicle.icicle(TREE, title="modules"), backend="bokeh")
    boxes = figure.renderers[0].data_source.data
    assert list(boxes["name"]) == ["GPT", "Block_0", "Attention", "MLP", "Block_1", "Loss"]
    assert list(boxes["top"]) == [0, -1, -2, -2, -1, 0]
    assert figure.title.text == "modules (1 too narrow or deep to draw)"
    labels = figure.renderers[1].data_source.data["text"]
    assert "Block_0  40 us" in list(labels)


def test_names_are_cut_where_they_do_not_fit():
    tree = TREE.with_columns(name=pl.lit("A" * 40))
    figure = hv.render(icicle.icicle(tree, width=400), backend="bokeh")
    labels = list(figure.renderers[1].data_source.data["text"])
    assert all(len(t) * icicle.LETTER <= 0.75 * 400 for t in labels)
    assert any(t.endswith("…") for t in labels)


@pytest.mark.parametrize("tree", [TREE.clear(), TREE.with_columns(total_device_ns=0)])
def test_nothing_is_a_sentence(tree):
    figure = hv.render(icicle.icicle(tree), backend="bokeh")
    assert [r.data_source.data["text"] for r in figure.renderers] == [[icicle.NOTHING]]


def drawn(picture):
    figure = hv.render(picture, backend="bokeh")
    boxes = figure.renderers[0].data_source.data
    return figure.title.text, [*zip(boxes["name"], boxes["share"], strict=True)]


def test_modules_of_the_first_rank_with_what_is_in_none():
    # of 40 us of rank 0: GPT 30 (Linear 30), 10 in no module
    frame = pl.DataFrame(
        {
            "rank": [0, 0, 0, 1],
            "name": ["GPT_0", "Linear_0", None, "GPT_0"],
            "depth": [0, 1, 0, 0],
            "total_device_ns": [30_000, 30_000, 10_000, 99_000],
        }
    )
    shares = [("GPT_0", "75.0 %"), ("Linear_0", "75.0 %"), (icicle.NO_MODULE, "25.0 %")]
    assert drawn(icicle.modules(frame)) == ("device time by module, rank 0", shares)
    assert drawn(icicle.modules(frame.head(3))) == ("device time by module", shares)


def test_phases_of_the_first_device_stand_side_by_side():
    frame = pl.DataFrame(
        {
            "rank": [0, 0, 1],
            "device": [2, 2, 2],
            "phase": ["forward", None, "forward"],
            "busy_ns": [30_000, 10_000, 99_000],
        }
    )
    shares = [("forward", "75.0 %"), ("unknown", "25.0 %")]
    assert drawn(icicle.phases(frame)) == ("device time by phase, rank 0 · GPU 2", shares)
    assert drawn(icicle.phases(frame.head(2))) == ("device time by phase", shares)
