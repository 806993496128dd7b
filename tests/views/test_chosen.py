"""Rows of tables as marked events of a timeline, by hand on a few events."""

import numpy as np
from views.traces import kernel, op, trace

from workbench.views.chosen import Rows, mask
from workbench.views.timeline import Timeline

# 0        100       200       300       400
# |gemm    |         |gemm     |         |relu|   stream 7
#      |copy     |                                stream 20, 50-150
# |addmm        |                                  host thread 0, 0-140; mm inside it, 10-40
RUN = trace(
    activities=[
        kernel("gemm", 0, 100, step=3),
        kernel("copy", 50, 100, stream=20, kind="copy", step=3),
        kernel("gemm", 200, 100, step=4),
        kernel("relu", 400, 50, step=4),
    ],
    ops=[op("addmm", 0, 140, step=3), op("mm", 10, 30, 1, step=3)],
)


class Silent(Timeline):
    """Keeps what it would send."""

    def send(self, content, buffers=None):
        self.sent = (content, buffers)


def rows(table, *ids, of=4):
    wanted = np.zeros(of, np.bool_)
    wanted[list(ids)] = True
    return Rows(table, None, wanted)


def named(timeline, keep):
    return sorted(timeline.data.event(int(i)).name for i in np.flatnonzero(keep))


def test_rows_become_events_of_their_table_alone():
    timeline = Silent(RUN)
    data = timeline.data
    assert named(timeline, mask(data, [rows("activities", 1, 3)])) == ["copy", "relu"]
    both = mask(data, [rows("activities", 0), rows("ops", 1, of=2)])
    assert named(timeline, both) == ["gemm", "mm"]
    other_rank = Rows("activities", 1, np.ones(4, np.bool_))
    assert not mask(data, [other_rank]).any()


def test_an_emphasis_is_counted_walked_and_gives_way_to_a_search():
    timeline = Silent(RUN)
    timeline.emphasise("one gemm and relu", [rows("activities", 2, 3)])
    assert timeline.matches == {
        "text": "one gemm and relu", "total": 2, "within": 2, "at": 0, "problem": "",
    }  # fmt: skip
    timeline.window = [350, 450]
    assert timeline.matches["within"] == 1
    timeline.window = list(timeline.extent)
    assert timeline.next_match()["id"] == 2
    assert timeline.next_match()["id"] == 3
    timeline.search = "copy"
    assert (timeline.matches["text"], timeline.matches["total"]) == ("copy", 1)
    timeline.search = ""
    assert timeline.matches["total"] == 2
    timeline.filter = {"steps": [3]}
    assert timeline.matches["total"] == 0
    timeline.filter = {}
    timeline.emphasise("")
    assert timeline.matches == {}


def test_one_of_two_events_of_the_same_name_is_lit():
    timeline = Silent(RUN)
    timeline.emphasise("the second", [rows("activities", 2)])
    ask = {"type": "view", "view": "v", "seq": 1, "base": "0", "a": 0, "b": 450, "width": 90}
    timeline._on_message(None, ask | {"first": 0, "last": len(timeline.data.row_lane)})
    header, buffers = timeline.sent
    text = np.frombuffer(buffers[5], "<u2")
    event = np.frombuffer(buffers[2], "<u4")
    lit = {timeline.data.event(int(e)).id for e, k in zip(event, text, strict=True)
           if header["hits"][k]}  # fmt: skip
    assert lit == {2}
    assert header["texts"].count("gemm") == 2
