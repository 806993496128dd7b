"""The recorded corpus: independent totals to the nanosecond, identities on every file."""

import csv
from pathlib import Path

import polars as pl
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


OTHER = {".md", ".txt", ".csv", ".ipynb", ".log"}


def sources(corpus):
    """Every input of the corpus but counter tables, and the cases' files."""
    files = sorted((corpus / "traces").rglob("*")) + sorted((corpus / "cases").glob("K*"))
    return [
        f
        for f in files
        if f.is_file() and f.suffix not in OTHER and not f.name.endswith(".expected.json")
    ]


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


NO_FAMILIES = {
    "nsys/cloverleaf_a100_schema3.13.sqlite": "a hydrodynamics code",
    "kineto/h100_cuda_sync_after_fix.json.gz": "generated for a unit test: its kernel is 'Kernel'",
    "kineto/h100_cuda_sync_before_fix.json.gz": "generated for a unit test: its kernel is 'Kernel'",
    "hta/mtia_inference_rank0.json.gz": "names the packets of a command processor, not operators",
}
"""Besides the vector copy in rocm/, whose tables of counters are no traces."""


def test_nearly_all_device_time_has_a_family(corpus):
    looked_at = 0
    for path in sorted((corpus / "traces").rglob("*")):
        name = path.relative_to(corpus / "traces").as_posix()
        if not path.is_file() or "expected" in path.parts or name in NO_FAMILIES:
            continue
        if path.suffix in {".csv", ".txt", ".md"}:
            continue
        trace = opened_or_refused(path)
        if trace is None:
            continue
        rows = trace.activities.filter(pl.col("source") == "device")
        assert not rows["family"].null_count(), name
        known = rows.filter(pl.col("family") != "other")["dur_ns"].sum()
        assert known >= 0.98 * rows["dur_ns"].sum(), name
        looked_at += rows.height > 0
    assert looked_at >= 44


@pytest.mark.parametrize("name", ["h100_bert_small_inference", "mi300_qwen1.5_0.5b_inference"])
def test_kernels_are_linked(corpus, name):
    trace = wb.open(Path(corpus, "traces", "tracelens", f"{name}.json.gz"))
    linked = trace.activities["launch"].count()
    assert linked > 0.6 * trace.activities.height
    # a kernel's launch carries its correlation, so no kernel starts before the call begins
    both = trace.activities.join(trace.launches.rename({"id": "launch", "start_ns": "call_ns"}),
                                 on="launch", suffix="_call")  # fmt: skip
    assert (both["start_ns"] >= both["call_ns"]).mean() > 0.99
