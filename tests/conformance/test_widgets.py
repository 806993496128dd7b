"""The widget cases: a cell that is run again (K61), a bridge that can't be imported (K62)."""

import sys

import pytest
from panels.counting import counted

import workbench as wb
from workbench.panels.questions import QUESTIONS
from workbench.resources import data
from workbench.views.figure import Figure

RUN = data() / "gpt_tiny_cpu"


def test_k61_a_change_is_computed_once_for_the_newest_view_and_never_for_the_replaced_one(
    tmp_path, monkeypatch
):
    launcher = wb.Launcher(tmp_path)  # the control that both views share
    replaced = wb.Explorer(runs_dir=RUN.parent, launcher=launcher)
    newest = wb.Explorer(runs_dir=RUN.parent, launcher=launcher)
    shown = replaced.answers
    asked = counted(monkeypatch)
    launcher.last_run = str(RUN)  # a run has been recorded
    assert newest.source.ranks[0].meta.path.parent == RUN
    assert replaced.answers is shown
    assert asked.count("summary") == 1
    asked.clear()
    newest.step.value = 2  # which sets the last step of the range as well
    assert asked.count("summary") == 1
    assert len(asked) == len(set(asked))
    assert set(asked) < set(QUESTIONS)


def drawn(monkeypatch, *missing):
    for name in missing:
        monkeypatch.setitem(sys.modules, name, None)
    explorer = wb.Explorer(RUN)
    sent = []
    monkeypatch.setattr(Figure, "send", lambda _, message, __=None: sent.append(message))
    for figure in (explorer.panes.breakdown, *explorer.panes.figures.values()):
        ask = {"type": "draw", "view": "v", "seq": 1, "theme": "light", "width": 800}
        figure._on_message(None, ask)
    return explorer, sent


def test_k62_without_the_bridge_every_view_is_built_and_drawn(monkeypatch):
    explorer, sent = drawn(monkeypatch, "jupyter_bokeh", "ipywidgets_bokeh", "pyviz_comms")
    assert {m["type"] for m in sent} == {"item"}
    assert len(sent) == 1 + len(explorer.panes.figures)


@pytest.mark.parametrize("missing", ["holoviews", "bokeh.embed"])
def test_k62_without_pictures_tables_and_timeline_stay_and_say_so(monkeypatch, missing):
    explorer, sent = drawn(monkeypatch, missing)
    assert {m["type"] for m in sent} == {"missing"}
    assert missing in sent[0]["said"]
    for title in explorer.panes.titles:
        explorer.panes.open(title)
        assert explorer.panes.contents(title)
    assert explorer.panes.tables["kernels"].html.count("data-row=") > 5
    assert explorer.timeline is not None
