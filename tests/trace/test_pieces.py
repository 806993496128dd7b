"""Cutting a file's text into events, mending what is broken, pairing begins with ends."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.errors import CutShortError, InputError
from workbench.trace import times
from workbench.trace.kineto import pairs, repair
from workbench.trace.kineto.arguments import Args
from workbench.trace.kineto.events import Reader
from workbench.trace.kineto.pieces import EventLists

PATH = Path("t.json")
ODD_NAMES = ['},{"ph": "X"', '{"name":', "}, {", "]}", '\\"', "\\", "é→", "\n", '"traceEvents": [']


def lists(text, size=1 << 20):
    """Cut and decode a text that arrives in chunks of a size."""
    if isinstance(text, str):
        text = text.encode()
    chunks = iter([text[i : i + size] for i in range(0, len(text), size)])
    return EventLists(chunks, Reader(Args), PATH)


def read(text, size=1 << 20):
    found = lists(text, size)
    events = [e for piece in found for e in piece.events]
    return [e.name for e in events], found


def is_json(text):
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def codes(found):
    return {p.code: p.count for p in found.problems()}


chunk_sizes = st.integers(1, 200)
names = st.lists(st.one_of(st.sampled_from(ODD_NAMES), st.text(max_size=8)), max_size=12)
nested = st.sampled_from([{}, {"a": [{"ph": "X"}, {"ph": "Y"}]}, {"x": {"y": []}}, {"n": "}, {"}])
layouts = st.sampled_from([{}, {"indent": 2}, {"separators": (",", ":")}])


@settings(max_examples=300, deadline=None)
@given(names, nested, layouts, chunk_sizes, st.sampled_from(["bare", "before", "after"]))
def test_events_are_those_of_a_plain_decode_however_the_text_arrives(
    wanted, args, layout, size, header
):
    events = [{"ph": "X", "name": n, "ts": i, "dur": 1, "args": args} for i, n in enumerate(wanted)]
    around = {"deviceProperties": [{"id": 0}, {"id": 1}], "s": "}]}, {"}
    bare = header == "bare"
    inside = {"traceEvents": events}
    whole = around | inside if header == "before" else inside | around
    text = json.dumps(events if bare else whole, **layout)
    got, found = read(text, size)
    assert got == wanted
    assert codes(found) == {}
    assert json.loads(found.header) == ({} if bare else whole | {"traceEvents": []})


@settings(max_examples=200, deadline=None)
@given(names.filter(len), layouts, chunk_sizes, st.data())
def test_a_cut_file_keeps_every_whole_event_before_the_cut(wanted, layout, size, data):
    events = [{"ph": "X", "name": n, "ts": i} for i, n in enumerate(wanted)]
    text = json.dumps({"a": 1, "traceEvents": events}, **layout)
    begin = text.index("[") + 1
    cut = data.draw(st.integers(begin, len(text) - 1))
    try:
        got, found = read(text[:cut], size)
    except InputError:
        pytest.fail("a cut inside the events is no reason to refuse")
    assert got == wanted[: len(got)]
    # the text of each event that is there whole was read
    ends, at = [], begin
    for e in events:
        piece = json.dumps(e, **layout)
        if "indent" in layout:
            break
        at = text.index(piece, at) + len(piece)
        ends.append(at)
    assert len(got) >= sum(end <= cut for end in ends)
    whole = cut >= text.rindex("]") + 1
    assert found.truncated != whole or "damaged" not in codes(found)
    assert json.loads(found.header_before) == {"a": 1, "traceEvents": []}


def test_a_stream_that_ends_early_is_a_cut_file():
    def stream():
        yield b'{"traceEvents": [{"ph": "X", "name": "a"}, {"ph": "X", "na'
        raise CutShortError("t.json is cut short: its gzip stream ends early")

    found = EventLists(stream(), Reader(Args), PATH)
    assert [e.name for p in found for e in p.events] == ["a"]
    assert found.truncated
    assert codes(found) == {"cut_short": 1}


@pytest.mark.parametrize("size", [1, 7, 64, 1 << 20])
def test_one_damaged_event_costs_that_event_alone(size):
    args = {"l": [{"ph": 1}, {"ph": 2}]}
    events = [json.dumps({"ph": "X", "name": n, "args": args}) for n in "abcd"]
    events[1] = events[1].replace('"name"', '"na|me', 1)  # a quote is gone
    got, found = read('{"traceEvents": [' + ", ".join(events) + '], "b": 2}', size)
    assert got == ["a", "c", "d"]
    assert codes(found)["unreadable_event"] >= 1
    assert json.loads(found.header) == {"traceEvents": [], "b": 2}


@pytest.mark.parametrize("size", [64, 1 << 20])
@pytest.mark.parametrize("hole", range(1, 90, 7))
def test_a_hole_costs_the_events_around_it_alone(hole, size):
    wanted = [f"n{i:02}" for i in range(20)]
    text = json.dumps({"traceEvents": [{"ph": "X", "name": n} for n in wanted], "b": 2}, indent=1)
    begin = text.index("n07") - 3
    holed = text[:begin] + text[begin + hole :]
    got, found = read(holed, size)
    lost = [n for n in wanted if n not in got]
    assert set(got) <= set(wanted) | {None}
    assert len(lost) <= 2 + hole // 30  # an event is 33 characters long
    assert ("unreadable_event" in codes(found)) != is_json(holed)
    assert json.loads(found.header) == {"traceEvents": [], "b": 2}


def test_control_characters_after_a_hole_are_mended():
    text = '[{"name": "a"}, {"na": "x}, {"name": "b\n"}, {"name": "c"}]'.replace("\\n", "\n")
    got, found = read(text)
    assert got == ["a", "b\n", "c"]
    assert codes(found) == {"unreadable_event": 1, "control_characters": 1}


def test_the_last_event_damaged_is_not_a_cut():
    got, found = read('{"traceEvents": [{"ph": "X", "name": "a"}, {"ph": X}], "b": 2}')
    assert got == ["a"]
    assert codes(found) == {"unreadable_event": 1}
    assert json.loads(found.header) == {"traceEvents": [], "b": 2}


def test_an_open_list_with_damage_keeps_its_last_event():
    got, found = read(b'[{"name": "a"}, {"na|me}, {"name": "b"},\n')
    assert got == ["a", "b"]
    assert codes(found) == {"unreadable_event": 1}
    got, found = read(b'{"traceEvents": [{"name": "a"}, {"na|me}, {"name": "b"}')
    assert got == ["a", "b"]
    assert codes(found) == {"unreadable_event": 1, "cut_short": 1}


def test_bad_encoding_where_nobody_looks_is_named():
    got, found = read(b'[{"name": "a", "args": {"\xc5x": 1}}]')
    assert got == ["a"]
    assert codes(found) == {"bad_encoding": 1}


def test_members_that_are_no_events_are_counted():
    got, found = read('[{"name": "a"}, 17, {"name": "b", "ts": [1]}, {"name": 5, "ph": null}]')
    assert got == ["a", "b", None]
    assert codes(found) == {"unreadable_event": 1}


def test_misfits_are_counted_by_field():
    reader = Reader(Args)
    text = b'[{"name": 5, "args": {"correlation": [1], "stream": 7}}]'
    (event,) = reader.decode(text)
    assert (event.name, event.args.correlation, event.args.stream) == (None, None, 7)
    assert reader.misfits == {"name": 1, "correlation": 1}


def test_a_list_named_like_the_events_deeper_down_is_not_taken():
    got, _ = read('{"a": {"traceEvents": [{"name": "no"}]}, "traceEvents": [{"name": "yes"}]}')
    assert got == ["yes"]


def test_text_after_a_bare_list_is_named():
    got, found = read('[{"name": "a"}] x')
    assert got == ["a"]
    assert codes(found) == {"trailing_text": 1}


@pytest.mark.parametrize(
    ("text", "mended", "counts"),
    [
        (b'["a\x01b\nc"]', b'["a\\u0001b\\u000ac"]', {"control_characters": 1}),
        (rb'["p\new\data"]', rb'["p\\new\\data"]', {"lone_backslashes": 1}),
        (rb'["p\new"]', rb'["p\new"]', {}),  # a legal escape proves nothing
        (rb'["a\"b"]', rb'["a\"b"]', {}),
        (b'[inf, -Infinity,NaN ,"x: nan,"]', b'[null, null,null ,"x: nan,"]', {"bare_numbers": 3}),
        (b'["\xff"]', '["�"]'.encode(), {"bad_encoding": 1}),
        (rb'["\ud800x", "\ud83d\ude00"]', rb'["\ufffdx", "\ud83d\ude00"]', {"bad_encoding": 1}),
        (b'{"a":\n nan\n}', b'{"a":\n null\n}', {"bare_numbers": 1}),
    ],
)
def test_mending(text, mended, counts):
    assert repair.mend(text) == (mended, counts)


# -- begin and end -------------------------------------------------------------------------------


def pair_slowly(events):
    """Close, for each end in order of time, the newest open begin of its thread."""
    stacks, pairs_, stray = {}, set(), set()
    for i in sorted(range(len(events)), key=lambda i: (events[i][1], i)):
        thread, _, is_begin = events[i]
        stack = stacks.setdefault(thread, [])
        if is_begin:
            stack.append(i)
        elif stack:
            pairs_.add((stack.pop(), i))
        else:
            stray.add(i)
    return pairs_, {i for s in stacks.values() for i in s}, stray


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9), st.booleans()), max_size=30))
def test_pairs_equal_a_stack(events):
    thread, at, is_begin = (np.array([e[k] for e in events]) for k in range(3))
    found = pairs.match(thread.astype(np.int64), at.astype(np.int64), is_begin.astype(np.bool_))
    want = pair_slowly(events)
    assert set(zip(found.begin.tolist(), found.end.tolist(), strict=True)) == want[0]
    assert (set(found.unfinished.tolist()), set(found.stray.tolist())) == want[1:]


# -- numbers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "ns"),
    [
        ([1, 2], [1000, 2000]),
        ([1669783687505747], [1669783687505747000]),  # beyond what a double keeps in ns
        ([1.5, 2], [1500, 2000]),
        ([1.5, None], [1500, times.MISSING]),
        ([1669783687505747.5], None),
        ([1.0001], None),
        ([2**70], None),
        ([], []),
    ],
)
def test_numbers_to_ns(values, ns):
    got = times.from_numbers(values)
    assert (got if got is None else got.tolist()) == ns


def test_sixteen_digit_texts_are_exact():
    texts = [b"1669783687505747", b"1669783687505747.125", b"9999999999999999"]
    assert times.from_texts(texts).tolist() == [
        1669783687505747000, 1669783687505747125, times.MISSING,
    ]  # fmt: skip
