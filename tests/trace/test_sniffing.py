"""Formats are told by content; every sample here is the smallest of its kind."""

import json
import pickle

import pytest
from wiremade import message, stream

from workbench.trace import formats, sniffing
from workbench.trace.formats import HEAD_BYTES

PLANE = message((1, ((1, 3), (2, "/device:GPU:0"))))
CHAKRA = stream(message((2, ((1, "schema"), (29, "1.0")))), message((1, 7), (2, "aten::mm")))
SAMPLES = {
    "workbench.trace.counters.ncu": b'[step 1]\n"ID","Process ID","Process Name","Host Name",'
    b'"Kernel Name","Context"\n',
    "workbench.trace.counters.rocprof_compute": b"Dispatch_ID,Kernel_Name,GPU_ID,SQ_WAVES\n",
    "workbench.trace.rocprof": json.dumps({"rocprofiler-sdk-tool": [{}]}).encode(),
    "workbench.trace.graphs.torch": b'{\n "schema": "1.0.1", "pid": 1, "nodes": [',
    "workbench.trace.graphs.chakra_json": b' {"ngpus": 8, "workload_graph": [',
    "workbench.trace.graphs.chakra": CHAKRA,
    "workbench.trace.memory.timeline": b"[[-1, 1, 37888, 7], [-1, 1, 512, 7]",
    "workbench.trace.memory.snapshot": pickle.dumps({"segments": []}, protocol=2),
    "workbench.trace.xplane": PLANE,
    "workbench.trace.kineto": b'{"schemaVersion": 1, "traceEvents": [{"nodes": [1]}',
}


def told(head):
    return next((f.module for f in formats.FORMATS if f.matches(head)), None)


@pytest.mark.parametrize(("module", "head"), SAMPLES.items(), ids=SAMPLES)
def test_each_kind_is_told(module, head):
    assert told(head) == module


@pytest.mark.parametrize(
    "head",
    [
        b'{"traceEvents": [{"args": {"rocprofiler-sdk-tool": 1, "nodes": 2, "workload_graph": 3}}]',
        b'{"nodes": [], "traceEvents": []}',
        b'{"a": "\\"nodes\\": 1", "b": "{\\"workload_graph\\":", "traceEvents": [',
        b'{"deep": [{"nodes": 1}], "distributedInfo": {"workload_graph": 2}',
        b'[{"ph": "X"}]',
        b'[{"name": "\\"ID\\",\\"Process ID\\",\\"Kernel Name\\""}]',
        b'{"Dispatch_ID": 1,Kernel_Name,GPU_ID}',
        b"[[1, 2, 3]]",
        b"[[1, 9, 3, 4]]",
        b"\xef\xbb\xbf \n{}",
    ],
)
def test_words_inside_a_profiler_trace_are_not_keys_of_the_file(head):
    assert told(head) == "workbench.trace.kineto"


def test_a_key_after_a_long_text_in_which_braces_do_not_balance():
    head = json.dumps({"time": "}}]]" * 500, "nodes": []}).encode()
    assert told(head) == "workbench.trace.graphs.torch"


def test_keys_in_any_order():
    assert sniffing.is_execution_trace(b'{"finish_ts": 3, "nodes": [{"id": 1}], "schema": "1"}')


@pytest.mark.parametrize(
    "head",
    [b"", b"hello, world", b"\x80\x09", b"\x0a\x02hi", b"\x89PNG\r\n", b"\x12\x03abc", b"\n"],
)
def test_other_bytes_are_none_of_them(head):
    assert told(head) is None


def test_a_plane_whose_name_is_no_text_is_none():
    assert not sniffing.is_xplane(message((1, ((1, 3), (2, b"\xff\xfe")))))


def test_a_head_that_is_cut_anywhere_never_raises():
    for head in SAMPLES.values():
        for cut in range(len(head)):
            told(head[:cut])


def test_the_head_of_a_large_plane_is_enough():
    lines = tuple((3, ((2, "x" * 1000),)) for _ in range(200))
    assert told(message((1, ((2, "/host:CPU"), *lines)))[:HEAD_BYTES]) == "workbench.trace.xplane"
