"""How a recording went, from its folder."""

import json

import pytest

from workbench.capture import remarks
from workbench.capture.lost import MOST_BYTES, lost


@pytest.fixture
def told(tmp_path):
    def write(**manifest):
        (tmp_path / "run.json").write_text(json.dumps({"schema_version": 1, **manifest}))
        return {r.aspect: r for r in remarks.recorded(tmp_path).rows}

    return write


def steps(untraced, traced):
    times = [*(("untraced", t) for t in untraced), *(("traced", t) for t in traced)]
    return [{"rank": 0, "index": i, "phase": p, "dur_ns": t} for i, (p, t) in enumerate(times)]


def test_a_clean_run_has_none(told):
    plan = {"steps": 4}
    warmup = {"detected": True, "stable": True, "spread": 0.02, "steps": 3}
    run = steps([100, 101, 100, 101], [110, 110, 111, 110])
    assert told(plan=plan, warmup=warmup, steps=run, status="done") == {}


def test_a_warm_up_that_ended_uneven(told):
    uneven = {"detected": True, "stable": False, "spread": 0.31, "steps": 10}
    detail = told(warmup=uneven)[remarks.UNEVEN].detail
    assert detail == "the last of 10 steps still differed by 31 %"
    short = {"detected": True, "stable": False, "spread": None, "steps": 2}
    assert "too few" in told(warmup=short)[remarks.UNEVEN].detail
    # ranks of a script cannot vote, so theirs is not judged
    assert told(warmup=uneven | {"detected": False}) == {}


def test_too_few_steps_for_an_interval(told):
    found = told(steps=steps([100], [110, 110]))[remarks.FEW]
    assert found.detail == "1 untraced and 2 traced: no interval"
    assert found.advice.endswith("--untraced 5 --steps 5)")


def test_fewer_steps_than_asked_for(told):
    found = told(status="done", plan={"steps": 5}, steps=steps([9, 9], [9, 9]))
    assert found[remarks.SHORT].detail == "2 of the 5 that were asked for"


def test_a_script_that_schedules_its_own_profiler_is_not_held_against_the_plan(told):
    own = {"limit": None, "detected": True, "stable": False, "spread": 0.5, "steps": 3}
    found = told(status="done", plan={"steps": 5}, warmup=own, steps=steps([9, 9], [9, 9]))
    assert not {remarks.SHORT, remarks.UNEVEN} & set(found)


def test_the_profiler_slows_down(told):
    found = told(steps=steps([100] * 16, [105_000_000] * 16 + [240_000_000] * 8))[remarks.SLOWDOWN]
    assert found.detail.startswith("behind the first 16 of 24 a step takes 240 ms instead of 105")
    assert found.detail.endswith("(+129 %)")
    assert "--steps 16" in found.advice
    faster = told(steps=steps([], [240] * 12 + [105] * 12))[remarks.SLOWDOWN]
    assert "--warmup" in faster.advice


def test_what_the_profiler_says_that_it_lost(tmp_path, told):
    log = tmp_path / "lost.txt"
    log.write_text(
        "step 1\nWARNING:2026-01-01 10:00:00 7:7 CuptiActivityApi.cpp:99] "
        "Exceeded max GPU buffer count (33 >= 33) - terminating tracing\n"
        "Dropped 7 activity records\nDropped 5 activity records\n"
        "x.cpp: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES\nCUPTI_ERROR_MAX_LIMIT_REACHED\n"
    )
    counts = lost(log)
    assert counts == {"buffers_full": 1, "dropped_records": 12, "profiler_errors": 1}
    told(lost=counts)
    rows = remarks.recorded(tmp_path).rows
    assert [row.state for row in rows] == ["fault"] * 3
    assert "buffers were full" in rows[0].detail
    assert "ACTIVITIES_MAX_GPU_BUFFER_SIZE_MB" in rows[0].advice
    assert rows[1].detail == "12 times: activity records were dropped"


def test_a_log_without_a_word_or_without_a_file(tmp_path):
    (tmp_path / "log.txt").write_bytes(b"\xff\xfe dropped my keys\n" * 10)
    assert lost(tmp_path / "log.txt") == {}
    assert lost(tmp_path / "nothing") == {}


def test_of_a_long_log_the_end_is_read(tmp_path, monkeypatch):
    assert MOST_BYTES == 64 * 10**6
    monkeypatch.setattr("workbench.capture.lost.MOST_BYTES", 40)
    log = tmp_path / "log.txt"
    log.write_text("Dropped 7 activity records\n" + "x" * 60 + "\nDropped 5 activity records\n")
    assert lost(log) == {"dropped_records": 5}


@pytest.mark.parametrize(
    "strange",
    [{"warmup": 3}, {"lost": 3}, {"lost": {"dropped_records": "x"}},
     {"warmup": {"stable": False, "detected": True}}, {"steps": [1]},
     {"steps": [{"phase": "traced"}]}, {"plan": {"steps": "many"}, "status": "done", "steps": {}}],
)  # fmt: skip
def test_a_manifest_of_others_is_not_trusted(told, strange):
    told(**strange)


def test_no_run_folder(tmp_path):
    assert remarks.recorded(tmp_path) == remarks.Remarks()
