"""The recorded corpus: independent totals to the nanosecond, identities on every file."""

import csv
from pathlib import Path

import pytest

import workbench as wb
from workbench.errors import WorkbenchError

pytestmark = pytest.mark.corpus
SAME = {"span_ns": "window_ns"}


def test_totals_equal_the_independent_ones(corpus):
    with (corpus / "traces" / "expected_totals.csv").open() as f:
        expected = list(csv.DictReader(f))
    assert len(expected) == 45
    for want in expected:
        trace = wb.open(corpus / "traces" / want["file"])
        frame = wb.summary(trace, window="all", device=int(want["device"]))
        row = frame.row(0, named=True)
        figures = {k: int(v) for k, v in want.items() if SAME.get(k, k) in row and k != "device"}
        got = {k: row[SAME.get(k, k)] for k in figures}
        assert got == figures, want["file"]


def sources(corpus):
    files = sorted((corpus / "traces").rglob("*.json*")) + sorted(
        (corpus / "cases").glob("K*.json")
    )
    return [f for f in files if not f.name.endswith((".expected.json",))]


def opened_or_refused(path):
    try:
        return wb.open(path)
    except WorkbenchError as refusal:
        sentence = str(refusal)
    assert str(path) in sentence
    assert "\n" not in sentence
    return None


def test_every_file_opens_or_is_refused_in_one_sentence_and_the_identities_hold(corpus):
    opened = 0
    for path in sources(corpus):
        trace = opened_or_refused(path)
        if trace is None:
            continue
        opened += 1
        for window in ("steps", "host", "all"):
            for r in wb.summary(trace, window=window).iter_rows(named=True):
                if r["busy_ns"] is None:
                    assert trace.meta.device_reason, path
                    continue
                assert r["window_ns"] == r["busy_ns"] + r["idle_ns"], path
                parts = ("compute_ns", "exposed_communication_ns", "exposed_copy_ns")
                assert r["busy_ns"] == sum(r[p] for p in parts), path
                shown = r["overlap_ns"] + r["exposed_communication_ns"]
                assert r["communication_ns"] == shown, path
        for r in wb.steps(trace).iter_rows(named=True):
            assert r["dur_ns"] == r["busy_ns"] + r["idle_ns"], path
        assert (trace.ops["self_ns"] >= 0).all(), path
        assert (trace.ops["self_ns"] <= trace.ops["dur_ns"]).all(), path
    assert opened > 90


@pytest.mark.parametrize("name", ["h100_bert_small_inference", "mi300_qwen1.5_0.5b_inference"])
def test_kernels_are_linked(corpus, name):
    trace = wb.open(Path(corpus, "traces", "tracelens", f"{name}.json.gz"))
    linked = trace.activities["launch"].count()
    assert linked > 0.6 * trace.activities.height
    # a kernel's launch carries its correlation, so no kernel starts before the call begins
    both = trace.activities.join(trace.launches.rename({"id": "launch", "start_ns": "call_ns"}),
                                 on="launch", suffix="_call")  # fmt: skip
    assert (both["start_ns"] >= both["call_ns"]).mean() > 0.99
