"""What an event is tied to: a step with a forward and a backward operator on two ranks, by hand."""

from __future__ import annotations

import pytest
from views.generated import many_lanes
from views.traces import kernel, op, trace

from workbench.trace.core import Job
from workbench.views import flow
from workbench.views.timeline import Timeline

# ops      0 linear [1 mm]                       2 evaluate [3 MmBackward0 [4 mm]]
# launches   0 (of 1)                              1 (of 4)                2 (no operator)
# kernels        0 gemm (launch 0)                      1 gemm_bw (launch 1)   2 all_reduce


def one_rank(rank=None, **more):
    return trace(
        rank=rank,
        ops=[
            op("linear", 0, 20),
            op("mm", 2, 10, 1, parent=0),
            op("evaluate", 100, 50, forward=1),
            op("MmBackward0", 105, 40, 1, parent=2, forward=1),
            op("mm", 110, 10, 2, parent=3),
        ],
        launches=[
            {"kind": "launch", "name": "cudaLaunchKernel", "thread": 0, "dur_ns": 1}
            | {"start_ns": t, "op": o}
            for t, o in ((4, 1), (112, 4), (160, None))
        ],
        activities=[
            kernel("gemm", 30, 10, launch=0, op=1),
            kernel("gemm_bw", 130, 10, launch=1, op=4),
            kernel("all_reduce", 170 + 5 * (rank or 0), 30, launch=2, kind="collective"),
        ],
        collectives=[
            {"activity": 2, "name": "all_reduce", "members": "[0, 1]", "seq": 7, "group": "dp"}
            | {"start_ns": 170, "dur_ns": 30}
        ],
        **more,
    )


def related(source, table, row, rank=None):
    found = flow.links(source, {"table": table, "rank": rank, "id": row})
    return [(r, *place[0::2]) for r, place, _ in found]


def test_a_kernel_leads_to_its_launch_its_operator_and_the_other_pass():
    source = one_rank()
    assert related(source, "activities", 0) == [
        ("launch", "launches", 0), ("operator", "ops", 1), ("backward", "ops", 2),
    ]  # fmt: skip
    # the backward mm has no partner of its own; the node around it has
    assert related(source, "activities", 1) == [
        ("launch", "launches", 1), ("operator", "ops", 4), ("forward", "ops", 1),
    ]  # fmt: skip


def test_an_operator_leads_to_its_partner_and_to_all_that_it_launched():
    source = one_rank()
    assert related(source, "ops", 0) == [("work", "activities", 0)]
    assert related(source, "ops", 2) == [("forward", "ops", 1), ("work", "activities", 1)]
    assert related(source, "launches", 0) == [
        ("operator", "ops", 1), ("work", "activities", 0), ("backward", "ops", 2),
    ]  # fmt: skip


def test_a_collective_leads_to_the_same_one_on_the_other_ranks():
    job = Job((one_rank(0), one_rank(1)))
    assert related(job, "activities", 2, 0) == [
        ("launch", "launches", 2), ("other rank", "activities", 2),
    ]  # fmt: skip
    found = flow.frame(job, flow.links(job, {"table": "activities", "rank": 0, "id": 2}))
    assert found.rows()[1] == ("other rank", "activities", 1, 2, "all_reduce", 175, 30)


def test_what_is_tied_to_nothing_has_no_links():
    source = one_rank()
    assert flow.links(source, {}) == []
    assert related(source, "activities", 99) == related(source, "steps", 0) == []
    alone = trace(activities=[kernel("k", 0, 9)])
    assert related(alone, "activities", 0) == []


@pytest.fixture
def timeline():
    return Timeline(one_rank())


def test_the_widget_knows_the_links_of_the_selected_event(timeline):
    timeline.selected = {"table": "activities", "id": 1}
    assert timeline.links.select("relation", "name", "start_ns").rows() == [
        ("launch", "cudaLaunchKernel", 112), ("operator", "mm", 110), ("forward", "mm", 2),
    ]  # fmt: skip
    timeline.selected = {}
    assert timeline.links.is_empty()
    assert timeline.flow == {}


def test_lines_go_from_cause_to_effect_past_what_is_not_drawn(timeline):
    timeline.selected = {"table": "activities", "id": 1}
    names = [node["text"] for node in timeline.flow["nodes"]]
    lines = {(names[a], names[b]) for a, b in timeline.flow["lines"]}
    # launches are no lane here, so the operator's line goes to the kernel; the forward operator's
    # goes to the node around the backward one
    assert lines == {("mm", "gemm_bw"), ("mm", "MmBackward0")}
    stops = [timeline.flow["nodes"][k] for k in timeline.flow["stops"]]
    assert [(s["relation"], s["start"]) for s in stops] == [
        ("", "130"), ("operator", "110"), ("forward", "2"),
    ]  # fmt: skip


def test_a_walk_along_the_links_keeps_them(timeline):
    timeline.selected = {"table": "activities", "id": 1}
    before = timeline.links
    stop = timeline.flow["nodes"][timeline.flow["stops"][1]]
    timeline._on_message(timeline, {"type": "pick", "event": stop["event"]}, [])
    assert timeline.selected == {"table": "ops", "rank": None, "id": 4}
    assert timeline.links.equals(before)
    timeline.selected = {"table": "ops", "id": 0}
    assert timeline.links["relation"].to_list() == ["work"]


def test_events_that_are_no_trace_have_no_links():
    timeline = Timeline(many_lanes(100, lanes=2))
    timeline.selected = {"table": "events", "id": 5}
    assert timeline.links.is_empty()
    assert timeline.tracks == ()
