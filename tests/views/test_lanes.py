"""Which lanes a trace has, what they are called, and what they hold."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from views.traces import host, kernel, op, three_events, trace

from workbench.errors import UsageError
from workbench.trace.core import Job
from workbench.views import filters, theme
from workbench.views.layers import from_frame
from workbench.views.trace_lanes import activity_lanes


def labels(found):
    return [lane.label for lane in found.lanes]


def names_by_row(found):
    texts = [found.names[i] for i in found.name]
    return [texts[a:b] for a, b in zip(found.offset[:-1], found.offset[1:], strict=True)]


def test_streams_of_a_device():
    found = activity_lanes(three_events())
    assert labels(found) == ["GPU 0 · stream 7", "GPU 0 · stream 20"]
    assert names_by_row(found) == [["gemm", "relu"], ["all_reduce"]]
    assert found.origin_ns == 100
    assert found.start.tolist() == [0, 50, 20]
    assert found.dur.dtype == np.uint32


def test_an_event_says_which_row_of_which_table_it_is():
    found = activity_lanes(three_events())
    event = found.event(1)
    assert (event.name, event.start_ns, event.dur_ns, event.id, event.step) == (
        *("relu", 150, 10),
        *(2, 4),
    )
    assert event.lane.table == "activities"
    assert found.find("activities", 2) == 1
    assert found.find("activities", 9) == found.find("ops", 2) == -1
    assert found.find("activities", 2, rank=1) == -1


def test_communication_has_its_colour_and_families_share_theirs():
    found = activity_lanes(
        trace(
            activities=[
                kernel("nccl", 0, 1, kind="collective"),
                kernel("a<1>", 1, 1, family="gemm"),
                kernel("b<2>", 2, 1, family="gemm"),
                kernel("memcpy", 3, 1, kind="copy"),
            ]
        )
    )
    colour = dict(zip(found.names, found.colours.tolist(), strict=True))
    assert colour["nccl"] == theme.CLASSES.index("communication")
    assert colour["memcpy"] == theme.CLASSES.index("copy")
    assert colour["a<1>"] == colour["b<2>"] >= len(theme.CLASSES)


def test_host_execution_by_thread_with_gloo_beside_it():
    found = activity_lanes(
        trace(
            device_kind="cpu",
            threads=("thread 4711 (python)", None),
            activities=[
                host("aten::mm", 0, 10),
                host("aten::add", 5, 10, thread=1),
                host("gloo:all_reduce", 2, 10, kind="collective"),
                host("gloo:broadcast", 20, 10, thread=1, kind="collective"),
            ],
        )
    )
    assert labels(found) == ["CPU thread 0 (python)", "CPU thread 1", "gloo"]
    assert names_by_row(found)[2] == ["gloo:all_reduce", "gloo:broadcast"]


def test_operators_nest_and_steps_come_first():
    found = activity_lanes(
        trace(
            ops=[op("aten::addmm", 0, 100), op("aten::mm", 40, 10, 1)],
            steps=[
                {"step": 5, "start_ns": 0, "dur_ns": 60, "host_start_ns": 0, "host_dur_ns": 60}
                | {"complete": True, "tail": False},
            ],
        )
    )
    assert labels(found) == ["steps", "CPU thread 0 · operators"]
    assert names_by_row(found) == [["step 5"], ["aten::addmm"], ["aten::mm"]]
    assert found.row_lane.tolist() == [0, 1, 1]


def test_annotations_have_lanes_except_those_of_steps_and_collectives():
    found = activity_lanes(
        trace(
            ranges=[
                {"name": n, "domain": d, "thread": 0, "start_ns": 0, "dur_ns": 5}
                for n, d in (("mine", "user"), ("ProfilerStep#1", "step"), ("gloo:x", "gloo"))
            ]
        )
    )
    assert labels(found) == ["CPU thread 0 · user ranges"]


def test_a_wait_for_no_stream_stands_with_its_device():
    """CUPTI writes 4294967295, or -1, where a wait is for a whole device or an event."""
    waits = [
        {
            "name": "Sync",
            "domain": "cuda_sync",
            "device": 0,
            "stream": s,
            "start_ns": s % 99,
            "dur_ns": 1,
        }
        for s in (7, 4294967295, -1)
    ]
    found = activity_lanes(trace(ranges=waits))
    assert labels(found) == ["GPU 0 · cuda_sync ranges", "GPU 0 · stream 7 · cuda_sync ranges"]
    assert filters.offered(found)["streams"] == [7]


def test_launches_on_request_and_unknown_tables_named():
    t = trace(
        launches=[
            {"kind": "launch", "name": "cudaLaunchKernel", "thread": 0}
            | {"start_ns": 3, "dur_ns": 2}
        ]
    )
    assert labels(activity_lanes(t)) == []
    assert labels(activity_lanes(t, ["launches"])) == ["CPU thread 0 · launches"]
    with pytest.raises(UsageError, match="launches"):
        activity_lanes(t, ["launchs"])


def test_a_job_has_the_lanes_of_every_rank_on_one_clock():
    job = Job(
        (
            trace(rank=0, origin_ns=1000, activities=[kernel("k", 0, 5)]),
            trace(rank=1, origin_ns=1003, activities=[kernel("k", 0, 5)]),
        )
    )
    found = activity_lanes(job)
    assert labels(found) == ["rank 0 · GPU 0 · stream 7", "rank 1 · GPU 0 · stream 7"]
    assert found.start.tolist() == [0, 3]
    assert found.find("activities", 0, rank=1) == 1


def test_other_accelerators_keep_their_name():
    t = trace(device_kind="npu", activities=[kernel("k", 0, 5, stream=None, device=3)])
    assert labels(activity_lanes(t)) == ["NPU 3"]


def test_a_frame_of_any_events():
    frame = pl.DataFrame(
        {"start_ns": [2**62, 2**62 + 5], "dur_ns": [3, 2**33], "name": ["a", None], "lane": [1, 1]}
    )
    found = from_frame(frame, by=["lane"])
    assert labels(found) == ["lane 1"]
    assert found.start.tolist() == [0, 5]
    assert found.dur.tolist() == [3, 2**33]
    assert found.event(1).start_ns == 2**62 + 5
    assert found.names == ("a", "")


def test_no_events_at_all():
    found = activity_lanes(trace())
    assert (found.lanes, found.offset.tolist(), found.engine.rows) == ((), [0], 0)


def test_lane_columns_may_have_any_name():
    frame = pl.DataFrame(
        {"start_ns": [0, 1], "dur_ns": [1, 1], "name": ["a", "b"], "kind": ["copy", "kernel"]}
    )
    for by in (["name"], ["kind", "name"]):
        found = from_frame(frame, by=by)
        assert sorted(names_by_row(found)) == [["a"], ["b"]]
    frame = frame.rename({"kind": "text"}).with_columns(lane=pl.lit(5))
    assert labels(from_frame(frame, by=["text", "lane"]))[0] == "text copy · lane 5"


def test_a_frame_without_lane_columns_is_refused():
    with pytest.raises(UsageError, match="at least one"):
        from_frame(pl.DataFrame({"start_ns": [0], "dur_ns": [1], "name": ["a"]}), by=[])


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"start_ns": [1], "dur_ns": [1]}, "column named 'name'"),
        ({"start_ns": [1.5], "dur_ns": [1], "name": ["a"]}, "start_ns"),
        ({"start_ns": [1], "dur_ns": [-1], "name": ["a"]}, "negative"),
    ],
)
def test_a_wrong_frame_is_refused_in_a_sentence(columns, words):
    with pytest.raises(UsageError, match=words):
        from_frame(pl.DataFrame(columns), by=["start_ns"])
