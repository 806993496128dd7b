"""Which counter tracks a trace has, and what they hold: worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from views.traces import host, kernel, op, trace

from workbench.trace.core import Job
from workbench.views import counter_tracks
from workbench.views.timeline import Timeline
from workbench.views.trace_lanes import activity_lanes

#          0    10    20    30    40    50
#  calls   a  b                               begin at 0 and 2
#  GPU 0        |a 10-30, 50 % |
#                     |b 20-50, 20 %      |
#  queue   1  2  1     0

LAUNCHES = [
    {"kind": "launch", "name": "cudaLaunchKernel", "thread": 0, "start_ns": t, "dur_ns": 1}
    for t in (0, 2)
]
KERNELS = [
    kernel("a", 10, 20, occupancy=0.5, launch=0),
    kernel("b", 20, 30, stream=8, occupancy=0.2, launch=1),
]
MEMORY = [
    {"t_ns": t, "device": 0, "bytes": 1, "total_allocated": a, "total_reserved": 100}
    for t, a in ((0, 60), (40, 80))
]


def two_kernels(**more):
    return trace(
        activities=KERNELS, launches=LAUNCHES, ops=[op("step", 0, 60)], memory=MEMORY, **more
    )


def curves(source):
    lanes = activity_lanes(source)
    return {t.name: t.curve for t in counter_tracks.tracks(source, lanes)}


def steps(curve):
    return [
        (t, None if np.isnan(v) else v)
        for t, v in zip(curve.t.tolist(), curve.value.tolist(), strict=True)
    ]


def test_occupancy_is_the_mean_of_what_runs_and_unknown_where_nothing_does():
    found = steps(curves(two_kernels())["GPU 0 · occupancy"])
    assert found == [(10, 50.0), (20, 35.0), (30, 20.0), (50, None), (60, None)]


def test_queue_depth_is_that_of_the_analysis_and_0_where_nothing_waits():
    found = steps(curves(two_kernels())["GPU 0 · queue depth"])
    assert found == [(0, 1), (2, 2), (10, 1), (20, 0), (60, None)]


def test_memory_holds_to_the_end():
    found = curves(two_kernels())
    assert steps(found["GPU 0 · memory allocated"]) == [(0, 60), (40, 80), (60, None)]
    assert steps(found["GPU 0 · memory reserved"]) == [(0, 100), (40, 100), (60, None)]


def test_counters_of_the_trace_have_their_unit():
    rows = [{"t_ns": t, "device": None, "name": "HBM", "value": v, "unit": "GB/s"}
            for t, v in ((-5, 1.0), (20, 3.0))]  # fmt: skip
    source = trace(activities=[kernel("k", 0, 40)], counters=rows)
    (track,) = counter_tracks.tracks(source, activity_lanes(source))
    assert (track.name, track.unit) == ("CPU · HBM", "GB/s")
    # the sample before the first event holds into it
    assert steps(track.curve) == [(0, 1.0), (20, 3.0), (40, None)]


def test_ranks_have_tracks_of_their_own_on_one_axis():
    ranks = tuple(two_kernels(rank=r, origin_ns=5 * r) for r in (0, 1))
    found = curves(Job(ranks))
    assert steps(found["rank 1 · GPU 0 · occupancy"])[0] == (15, 50.0)
    assert steps(found["rank 0 · GPU 0 · occupancy"])[0] == (10, 50.0)


def test_a_trace_without_events_or_counters_has_no_tracks():
    assert counter_tracks.tracks(trace(), activity_lanes(trace())) == ()
    assert curves(trace(device_kind="cpu", activities=[host("aten::mm", 0, 10)])) == {}


def test_a_pause_of_sampling_is_unknown_and_so_is_what_follows_the_last_sample(tmp_path):
    # samples every 10 ns, none from 20 to 100
    text = "t_unix_ns,device,power_w\n" + "".join(
        f"{t},gpu0,{w}\n" for t, w in ((0, 5), (10, 6), (20, 7), (100, 8), (110, 9))
    )
    (tmp_path / "telemetry.csv").write_text(text)
    (tmp_path / "run.json").write_text('{"schema_version": 1, "devices": [{"index": 0}]}')
    source = trace(activities=[kernel("k", 0, 200)])
    object.__setattr__(source.meta, "path", tmp_path / "rank0.trace.json.gz")
    found = steps(curves(source)["GPU 0 · power"])
    assert found == [
        (0, 5), (10, 6), (20, 7), (30, None), (100, 8), (110, 9), (120, None), (200, None),
    ]  # fmt: skip


def test_the_most_looked_at_are_shown_as_long_as_they_are_few():
    timeline = Timeline(two_kernels())
    assert timeline.tracks == (
        "GPU 0 · memory allocated", "GPU 0 · queue depth", "GPU 0 · occupancy",
        "GPU 0 · memory reserved",
    )  # fmt: skip
    assert timeline.hidden == []
    ranks = tuple(two_kernels(rank=r) for r in range(3))
    hidden = set(Timeline(Job(ranks)).hidden)
    assert {f"rank {r} · GPU 0 · occupancy" for r in range(3)} <= hidden
    assert not any("queue" in name or "allocated" in name for name in hidden)


def test_the_table_of_a_stretch():
    timeline = Timeline(two_kernels())
    timeline.hidden = ["GPU 0 · memory reserved", "GPU 0 · queue depth"]
    # 20-60: 60 B for 20 ns and 80 B for 20; 35 % for 10 ns and 20 % for 20, unknown for 10
    assert timeline.counter_table((20, 60)).rows() == [
        ("GPU 0 · memory allocated", "B", 60, 70, 80),
        ("GPU 0 · occupancy", "%", 20, 25, 35),
    ]
    assert timeline.counter_table((52, 58)).rows()[1] == ("GPU 0 · occupancy", "%", *[None] * 3)


def test_a_reply_holds_three_values_a_pixel_and_the_limits():
    timeline = Timeline(two_kernels())
    request = {"base": "0", "a": 0, "b": 60, "width": 6, "tracks": [2, 99], "seq": 4, "view": "v"}
    header, buffers = counter_tracks.reply(timeline.all_tracks, request)
    assert (header["tracks"], header["limits"], header["seq"]) == ([2], [(20.0, 50.0)], 4)
    (values,) = (np.frombuffer(b, "<f4").reshape(3, 6) for b in buffers)
    nan = np.nan
    assert values[1].tolist() == pytest.approx([nan, 50, 35, 20, 20, nan], nan_ok=True)
