"""torch's memory snapshots and timelines, and pickles that want more than to be read."""

import gzip
import json
import os
import pickle
import struct

import numpy as np
import polars as pl
import pytest
from mutations import assert_opens_or_is_refused

import workbench as wb
from workbench import show
from workbench.errors import InputError, NotATraceError
from workbench.trace.memory import pickles, timeline

MIB = 1 << 20


def segment(device=0, size=2 * MIB, used=0, **more):
    return {"device": device, "address": 4096, "total_size": size, "allocated_size": used,
            "active_size": used, "requested_size": used, "stream": 3, "segment_type": "large",
            "segment_pool_id": (0, 1), "is_expandable": False, "frames": [], "blocks": [],
            **more}  # fmt: skip


def event(action, size, at_us, addr=4096):
    return {
        "action": action,
        "addr": addr,
        "size": size,
        "stream": 0,
        "time_us": at_us,
        "frames": [],
    }


HISTORY = [
    event("free_completed", 300, 9),  # its free_requested lies before the history
    event("segment_alloc", MIB, 10),
    event("alloc", 1000, 11),
    event("free_requested", 400, 12),  # its alloc lies before the history
    event("free_completed", 400, 13),
    event("oom", 7, 14),
    event("segment_free", MIB, 15),
]


def snapshot(folder, protocol=4, **more):
    whole = {"segments": [segment(used=1600)], "device_traces": [HISTORY], "allocator_settings": {}}
    path = folder / "snapshot.pickle"
    path.write_bytes(pickle.dumps(whole | more, protocol=protocol))
    return path


@pytest.fixture
def trace(tmp_path):
    return wb.open(snapshot(tmp_path))


def test_a_free_counts_once_and_totals_run_back_from_the_end(trace):
    columns = ["t_ns", "device", "bytes", "total_allocated", "total_reserved"]
    # at the end 1600 allocated and 2 MiB reserved; before it +1000 -400, and a MiB came and went
    assert trace.memory.select(pl.col(columns)).rows() == [
        (0, 0, 0, 1000, 3 * MIB),
        (1_000, 0, 1000, 2000, 3 * MIB),
        (2_000, 0, -400, 1600, 3 * MIB),
        (5_000, 0, 0, 1600, 2 * MIB),
    ]
    assert trace.origin_ns == 10_000
    (note,) = trace.problems.rows(named=True)
    assert (note["code"], note["count"]) == ("out_of_memory", 1)


def test_json_of_a_recorded_run_tells_the_same_as_the_pickle(trace, tmp_path):
    whole = {"segments": [segment(used=1600)], "device_traces": [HISTORY], "allocator_settings": {}}
    (tmp_path / "rank0.memory.json").write_text(json.dumps(whole))
    same = wb.open(tmp_path / "rank0.memory.json")
    assert (same.meta.format, same.origin_ns) == (trace.meta.format, trace.origin_ns)
    for name in ("memory", "segments", "ranges", "problems"):
        assert same.tables[name].equals(trace.tables[name]), name


@pytest.mark.parametrize("text", ['{"segments": [', '{"segments": 3}', '{"segments": [[1], null]'])
def test_damaged_json_is_refused(tmp_path, text):
    (tmp_path / "rank0.memory.json").write_text(text)
    with pytest.raises(InputError, match=r"rank0\.memory\.json"):
        wb.open(tmp_path / "rank0.memory.json")


def test_the_state_at_the_end(trace):
    assert trace.segments.rows() == [
        (0, 4096, 2 * MIB, 1600, 1600, 1600, None, 3, "large", "[0,1]", False),
    ]


def frame(file, line=7, name="step"):
    return {"filename": file, "line": line, "name": name}


def test_the_largest_free_block_of_a_segment(tmp_path):
    blocks = [{"size": size, "state": state} for size, state in (
        (512, "active_allocated"), (1024, "inactive"), (4096, "active_pending_free"),
        (2048, "inactive"))]  # fmt: skip
    full = segment(blocks=blocks[:1])
    trace = wb.open(snapshot(tmp_path, segments=[segment(blocks=blocks), full, segment()]))
    assert trace.segments["largest_free"].to_list() == [2048, 0, None]


def test_an_allocation_names_the_line_of_the_program_that_made_it(tmp_path):
    inner = frame("/usr/lib/python3/site-packages/torch/nn/functional.py")
    own, outer = frame("/src/model.py", 49, "forward"), frame("/src/train.py")
    stacks = [
        [frame("module.cpp"), inner, own, outer],
        [inner],  # nothing but torch
        [frame("module.cpp")],
        [frame("/src/model.py", [1])],  # no line
        None,
    ]
    events = [event("alloc", 1, t) | {"frames": s} for t, s in enumerate(stacks)]
    events.append(event("free_requested", 1, 9) | {"frames": [own]})
    sites = wb.open(snapshot(tmp_path, device_traces=[events])).memory["site"].to_list()
    assert sites == [
        "/src/model.py(49): forward",
        "/usr/lib/python3/site-packages/torch/nn/functional.py(7): step",
        *[None] * 4,
    ]


def test_a_long_name_that_every_event_uses_is_no_trap(tmp_path):
    long = frame("x" * MIB + ".py")
    events = [event("alloc", 1, t) | {"frames": [long]} for t in range(3)]
    sites = wb.open(snapshot(tmp_path, device_traces=[events])).memory["site"]
    assert sites.cast(pl.String).str.len_bytes().max() < 2000


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_every_protocol(tmp_path, protocol):
    assert wb.open(snapshot(tmp_path, protocol)).memory.height == 4


def test_two_devices_are_kept_apart(tmp_path):
    segments = [segment(0, used=10), segment(1, used=7)]
    traces = [[event("alloc", 10, 2)], [event("alloc", 3, 1)]]
    memory = wb.open(snapshot(tmp_path, segments=segments, device_traces=traces)).memory
    assert memory.select("device", "total_allocated").rows() == [(1, 7), (0, 10)]


def test_annotations_are_ranges(tmp_path):
    def mark(stage, at_us):
        return {"stage": stage, "name": "Optimizer.step", "device": 0, "time_us": at_us}

    marks = [mark("END", 1), mark("START", 11), mark("END", 14), mark("START", 20)]
    trace = wb.open(snapshot(tmp_path, external_annotations=marks))
    assert trace.ranges.select("name", "device", "start_ns", "dur_ns").rows() == [
        ("Optimizer.step", 0, 1_000, 3_000)
    ]


def test_a_history_without_times_keeps_its_order(tmp_path):
    events = [{k: v for k, v in e.items() if k != "time_us"} for e in HISTORY]
    trace = wb.open(snapshot(tmp_path, device_traces=[events]))
    assert trace.memory["t_ns"].null_count() == 4
    assert trace.memory["bytes"].to_list() == [0, 1000, -400, 0]
    assert not trace.meta.timed


def test_without_history_the_state_is_shown_and_the_reason_said(tmp_path):
    trace = wb.open(snapshot(tmp_path, device_traces=[[]]))
    assert (trace.segments.height, trace.memory.height) == (1, 0)
    (note,) = trace.problems.rows(named=True)
    assert note["code"] == "history_not_enabled"
    about = show.about(trace, "summary", show.Choice())
    assert "recording was not enabled" in about["reason"]


def test_every_name_can_be_shown(trace):
    for name in show.names():
        show.frame(trace, name, show.Choice())
        show.about(trace, name, show.Choice())


class Evil:
    def __reduce__(self):
        return os.system, ("touch evil",)


def frozen(protocol):
    return pickle.dumps(Evil(), protocol=protocol)


WANT_MORE = {
    **{f"call, protocol {p}": frozen(p) for p in (2, 3, 4, 5)},
    "class": pickle.dumps(dict, protocol=2),
    "object": pickle.dumps(np.arange(3), protocol=4),
    "set": pickle.dumps({1, 2}, protocol=4),
    "persistent id": b"\x80\x02X\x01\x00\x00\x00aQ.",
    "extension": b"\x80\x02\x82\x01.",
    "deep tuples": b"\x80\x02)" + b"\x85" * 200_000 + b".",
    "build": b"\x80\x02}}b.",
}


@pytest.mark.parametrize("data", WANT_MORE.values(), ids=WANT_MORE)
def test_a_pickle_that_wants_more_than_plain_data_is_refused(tmp_path, monkeypatch, data):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "s.pickle"
    path.write_bytes(data + bytes(16))
    with pytest.raises(InputError, match=r"more than plain data|pickle that ends early"):
        wb.open(path)
    assert not (tmp_path / "evil").exists()


DAMAGED = {
    "a place in the memo that would take 34 GB": b"\x80\x02]r"
    + struct.pack("<I", 2**32 - 1)
    + b".",
    "a text that would take 2 GB": b"\x80\x02X" + struct.pack("<I", 2**31 - 1) + b"abc.",
    "a text of 2^60 bytes": b"\x80\x04\x8d" + struct.pack("<Q", 2**60) + b"abc.",
    "nothing to append to": b"\x80\x02a.",
    "a list as a key": b"\x80\x02}]Ns.",
    "an unknown place in the memo": b"\x80\x02h\x05.",
    "no end": b"\x80\x02]]]",
    "an absurd frame": b"\x80\x04\x95" + b"\xff" * 8 + b"].",
    "broken text": b"\x80\x04\x8c\x01\xff.",
}


@pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_pickle_is_refused_without_taking_memory(tmp_path, data):
    path = tmp_path / "s.pickle"
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"damaged pickle|ends early"):
        wb.open(path)


def test_plain_data_of_every_kind_is_what_was_written():
    data = {"a": [1, -1, 2**40, -(2**63), 2**64 - 1, 0.5, None, True, False, "", "é" * 300],
            "b": [(), (1,), (1, 2), (1, 2, 3)], 7: {}}  # fmt: skip
    for protocol in (2, 3, 4, 5):
        assert pickles.plain(pickle.dumps(data, protocol), "x") == data


def test_more_containers_than_are_read(monkeypatch):
    monkeypatch.setattr(pickles, "MOST_CONTAINERS", 100)
    with pytest.raises(InputError, match="more than is read"):
        pickles.plain(pickle.dumps([[] for _ in range(101)]), "x")


def test_a_list_that_is_named_a_thousand_times_is_no_trap(tmp_path):
    same = [event("alloc", 1, 1)] * 1000
    trace = wb.open(snapshot(tmp_path, device_traces=[same] * 1000))
    assert trace.memory.height < 10_000


@pytest.mark.parametrize("value", [{"a": 1}, [1, 2], "x", {"segments": 3}])
def test_another_pickle_is_no_snapshot(tmp_path, value):
    path = tmp_path / "s.pickle"
    path.write_bytes(pickle.dumps(value))
    if isinstance(value, list):
        assert wb.open(path).segments.height == 0
        return
    with pytest.raises(NotATraceError, match="no torch memory snapshot"):
        wb.open(path)


def test_any_value_in_any_field(tmp_path):
    odd = [None, "x", -1, 2**70, [1], {}, True, 1.5]
    for value in odd:
        for key in segment():
            wb.open(snapshot(tmp_path, segments=[segment(**{key: value})]))
        for key in HISTORY[2]:
            wb.open(snapshot(tmp_path, device_traces=[[HISTORY[2] | {key: value}]]))
        for key in ("segments", "device_traces", "allocator_settings", "external_annotations"):
            if key != "segments" or isinstance(value, list):
                wb.open(snapshot(tmp_path, **{key: value}))


@pytest.mark.parametrize("protocol", [2, 5])
def test_any_damage_to_a_snapshot(tmp_path, protocol):
    path = snapshot(tmp_path, protocol)
    assert assert_opens_or_is_refused(path, path.read_bytes(), is_json=False) > 5


ROWS = [[-1, 1, 100, 0], [50, 2, 40, 4], [60, 3, -40, 4], [60, 3, 40, 5], [70, 4, -100, 0]]


def raw_timeline(folder, rows=ROWS):
    path = folder / "t.raw.json"
    path.write_text(json.dumps(rows))
    return path


def test_timeline(tmp_path):
    trace = wb.open(raw_timeline(tmp_path))
    assert trace.memory.select("t_ns", "bytes", "total_allocated", "category").rows() == [
        (0, 100, 100, "parameter"),
        (0, 40, 140, "activation"),
        (10, -40, 100, "activation"),
        (10, 40, 140, "gradient"),
        (20, -100, 40, "parameter"),
    ]
    assert trace.origin_ns == 50
    assert trace.memory["device"].null_count() == 5  # the file does not say whose memory it is
    assert "no device activity" in trace.meta.device_reason


def test_timeline_rows_beyond_reason(tmp_path):
    trace = wb.open(raw_timeline(tmp_path, [*ROWS, [2**63, 2, 1, 0], [80, 2, 2**60, 0]]))
    assert trace.memory.height == 5
    assert dict(trace.problems.select("code", "count").rows()) == {"invalid_record": 2}


def test_any_damage_to_a_timeline(tmp_path):
    path = raw_timeline(tmp_path)
    assert assert_opens_or_is_refused(path, path.read_bytes(), is_json=True) > 5


@pytest.mark.corpus
def test_the_recorded_timeline_has_the_sizes_that_its_source_asserts(corpus):
    memory = wb.open(corpus / "traces/hta/memory_timeline.raw.json.gz").memory
    # The source's sizes have one entry for what existed before and one for each time after it.
    times = memory["t_ns"].unique().sort()
    upto = memory.filter(pl.col("t_ns") <= times[744 - 1])
    sizes = upto.group_by(pl.col("category").cast(pl.String)).agg(pl.col("bytes").sum())
    found = dict(sizes.rows())
    assert [found.get(c, 0) for c in timeline.CATEGORIES] == [
        102440608, 102228128, 19395584, 0, 2618160128, 58417152, 41811968, 25494440,
    ]  # fmt: skip


@pytest.mark.corpus
def test_the_recorded_snapshot(corpus):
    path = corpus / "traces/memory/cuda_memory_snapshot_llm_train.pickle.gz"
    trace = wb.open(path)
    segments, memory = trace.segments, trace.memory
    assert segments.height == 96
    assert segments.select("bytes", "allocated", "active").sum().row(0) == (
        4_238_344_192, 3_072_871_424, 3_072_871_424,
    )  # fmt: skip
    assert ((memory["bytes"] > 0).sum(), (memory["bytes"] < 0).sum()) == (2162, 2162)
    assert trace.meta.events == 6_486
    assert memory["total_allocated"][-1] == segments["requested"].sum() == 3_064_418_304
    assert trace.problems.height == 0
    # The same by the standard library's machine, on a file that is known to be harmless.
    events = pickle.loads(gzip.decompress(path.read_bytes()))["device_traces"][0]
    live = peak = segments["requested"].sum()
    for e in events:
        live += e["size"] * {"alloc": 1, "free_requested": -1}.get(e["action"], 0)
        peak = max(peak, live)
    assert memory["total_allocated"].max() == peak


@pytest.mark.corpus
def test_known_cases(corpus):
    def case(name):
        expected = json.loads((corpus / "cases" / f"{name[:3]}.expected.json").read_text())
        return wb.open(corpus / "cases" / f"{name}.pickle"), expected["values"]

    twice, want = case("K52_free_twice")
    assert twice.memory["total_allocated"].max() == want["peak_allocated"]
    assert twice.memory["total_allocated"][-1] == want["final_allocated"]
    assert twice.memory["total_reserved"][-1] == want["reserved"]
    for name in ("K53_no_history", "K53_no_frames", "K54_protocol5", "K54_bare_list"):
        trace, want = case(name)
        state = trace.segments.select(reserved="bytes", allocated="allocated").row(0, named=True)
        assert state == want["each_file"]
    assert case("K53_no_history")[0].memory.height == 0
    assert case("K53_no_frames")[0].memory.height == 1
