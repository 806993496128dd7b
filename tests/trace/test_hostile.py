"""Damaged and hostile profiler traces: every field may hold anything, and nothing may crash."""

import itertools
import json
import os

import pytest
from tinytrace import call, kernel, mark, op, step, write

import workbench as wb
from workbench import show
from workbench.analysis.names import ANALYSES
from workbench.errors import InputError, WorkbenchError
from workbench.trace.open import open_source

DEEP = "[" * 900 + "]" * 900
DEEPER = "[" * 100_000 + "]" * 100_000
VALUES = {
    "null": b"null",
    "text": b'"7"',
    "list": b"[[1]]",
    "negative": b"-5",
    "int64": b"9223372036854775807",
    "digits": b"9" * 400,
    "bad utf-8": b'"\xff"',
    "deep": DEEP.encode(),
    "deeper": DEEPER.encode(),
}


COMMUNICATION = {
    "Collective name": "allreduce",
    "In msg nelems": 4,
    "Out msg nelems": 4,
    "dtype": "Float",
    "Group size": 2,
    "Process Group Name": "0",
    "Process Group Ranks": "[0, 1]",
    "Seq": 1,
}
OPERATOR = {
    "External id": 3,
    "Sequence number": 4,
    "Fwd thread id": 1,
    "Input Dims": [[2, 3], [3, 4]],
    "Input type": ["float", "float"],
    "Input Strides": [[3, 1], [4, 1]],
    "Concrete Inputs": ["", ""],
}
KERNEL = {
    "grid": [1, 1, 1],
    "block": [32, 1, 1],
    "bytes": 8,
    "registers per thread": 8,
    "shared memory": 8,
    "est. achieved occupancy %": 50,
    "graph node id": 1,
}
MEMORY = {"Addr": 5, "Bytes": 8, "Device Type": 1, "Device Id": 0}


def events():
    return [
        step(1, 0, 90),
        op("aten::mm", 5, 20, **OPERATOR),
        call("cudaLaunchKernel", 10, 2, 1),
        kernel("gemm", 20, 10, 1, **KERNEL),
        kernel("ncclDevKernel_AllReduce", 40, 5, 0, stream=20, **COMMUNICATION),
        mark("[memory]", 11, 0, **MEMORY) | {"ph": "i"},
    ]


def places():
    for i, event in enumerate(events()):
        for field in event:
            yield i, None, field
        for field in event["args"]:
            yield i, "args", field


def damaged(place, value):
    """Return the trace's text with one field replaced by raw JSON text."""
    i, inner, field = place
    mark_text = '"@@@"'
    all_events = events()
    (all_events[i]["args"] if inner else all_events[i])[field] = "@@@"
    header = {"deviceProperties": [{"id": 0, "name": "X"}], "distributedInfo": {"rank": 0}}
    text = json.dumps(header | {"traceEvents": all_events}).encode()
    return text.replace(mark_text.encode(), value)


@pytest.mark.slow
@pytest.mark.parametrize("value", VALUES)
def test_any_value_in_any_field_opens_or_is_refused_in_one_sentence(tmp_path, value, thorough):
    """Each value in every third field, each field with three of the values; in all if thorough."""
    path, turn = tmp_path / "t.json", list(VALUES).index(value)
    for k, (place, name) in enumerate(zip(places(), itertools.cycle(ANALYSES))):
        if (k + turn) % 3 and not thorough:
            continue
        path.write_bytes(damaged(place, VALUES[value]))
        try:
            trace = open_source(path)
            for asked in ("summary", name):
                show.frame(trace, asked, show.Choice())
        except WorkbenchError as refusal:
            sentence = str(refusal)
            assert "\n" not in sentence, (place, sentence)


@pytest.mark.parametrize("field", ["deviceProperties", "distributedInfo", "baseTimeNanoseconds"])
@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_any_value_in_the_header(tmp_path, field, value):
    path = tmp_path / "t.json"
    path.write_bytes(b'{"%s": %s, "traceEvents": []}' % (field.encode(), value))
    try:
        open_source(path)
    except InputError as refusal:
        sentence = str(refusal)
        assert str(path) in sentence


def test_records_whose_times_make_no_sense_are_left_out_one_by_one(tmp_path):
    huge = [kernel("late", 9e18, 1), kernel("long", 10, 9e14), kernel("digits", 10**30, 1)]
    trace = wb.open(write(tmp_path, [kernel("good", 10, 5), *huge]))
    assert wb.summary(trace).row(0, named=True)["busy_ns"] == 5000
    assert trace.problems.select("code", "count").rows() == [("invalid_record", 3)]


def test_a_hundred_thousand_threads_and_a_deep_nest_are_no_trap(tmp_path):
    wide = [op("a", i, 1, tid=i) for i in range(30_000)]
    deep = [op("b", i, 60_000 - 2 * i, tid=-1) for i in range(30_000)]
    trace = wb.open(write(tmp_path, [*wide, *deep]))
    assert trace.ops["depth"].max() == 29_999


def test_threads_whose_times_span_an_age_are_told_apart(tmp_path):
    # two threads, 10^18 ns apart in time: thread times span would not fit 64 bits
    early, late = 0, 10**15 * 4
    trace = wb.open(
        write(
            tmp_path,
            [op("p", early, 10, tid=1), op("c", early + 2, 3, tid=1),
             op("p", late, 10, tid=2), op("c", late + 2, 3, tid=2), op("x", early, 9, tid=3)],
        )
    )  # fmt: skip
    assert trace.ops["parent"].to_list() == [None, 0, None, 2, None]
    assert trace.activities["dur_ns"].sum() == 29_000


def test_what_is_no_file_is_refused_at_once(tmp_path):
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    with pytest.raises(InputError, match="neither a file nor a folder"):
        open_source(pipe)


def test_a_rank_number_beyond_reason_is_no_rank(tmp_path):
    write(tmp_path, [kernel("k", 0, 1)], "rank99999999999999999999.json")
    assert open_source(tmp_path).ranks[0].meta.rank is None


def test_one_broken_rank_of_three_is_named(tmp_path):
    for rank in (0, 2):
        write(tmp_path, [kernel("k", 0, 1)], f"rank{rank}.json")
    (tmp_path / "rank1.json").write_text('{"traceEvents": [')
    with pytest.raises(InputError, match=r"rank1\.json ends early"):
        open_source(tmp_path)
