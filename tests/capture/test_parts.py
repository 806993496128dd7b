import subprocess
from types import SimpleNamespace

import pytest

from workbench.capture import manifest, outcome
from workbench.capture.overhead import overhead, step_times


def steps(phase, times, rank=0):
    return [
        {"rank": rank, "index": i, "phase": phase, "dur_ns": time} for i, time in enumerate(times)
    ]


def test_overhead_is_the_ratio_of_medians_less_one():
    # medians 120 and 100 -> 0.2; with equal times each resample gives the same ratio.
    run = {"steps": steps("untraced", [100, 100, 100]) + steps("traced", [120, 120])}
    result = overhead(run)
    assert result.ratio == pytest.approx(0.2)
    assert (result.low, result.high) == (pytest.approx(0.2), pytest.approx(0.2))
    assert (result.traced_ns, result.untraced_ns) == (120, 100)


def test_overhead_interval_spans_what_resampling_can_give():
    run = {"steps": steps("untraced", [100, 100, 100]) + steps("traced", [110, 120, 190])}
    result = overhead(run)
    assert result.ratio == pytest.approx(0.2)
    assert result.low == pytest.approx(0.1)  # all resamples are 110 in 1 of 27, 110-median 7 of 27
    assert result.high == pytest.approx(0.9)


def test_overhead_is_unknown_with_a_reason():
    assert overhead({"steps": steps("traced", [1])}).reason == "the run has no untraced steps"
    single = overhead({"steps": steps("untraced", [10]) + steps("traced", [11])})
    assert (single.ratio, single.low) == (pytest.approx(0.1), None)
    assert "two steps" in single.reason


def test_a_step_takes_as_long_as_its_slowest_rank():
    run = {"steps": steps("traced", [5, 9], rank=0) + steps("traced", [7, 8], rank=1)}
    assert step_times(run, "traced").tolist() == [7, 9]


def process(rank, *, code=None, error=None, done=False, tail=()):
    return SimpleNamespace(
        rank=rank, returncode=code, error=error, done=done, tail=list(tail), phase="traced"
    )


def test_a_killed_rank_is_named_before_those_that_lost_their_connection():
    killed = process(1, code=-9, tail=["step 4", "", "about to die"])
    lost = process(0, code=1, error=(5, "RuntimeError: Connection closed by peer"))
    first = outcome.culprit([lost, killed])
    assert first is killed
    text = outcome.sentence(first, 2)
    assert text.startswith("Rank 1 was killed by SIGKILL")
    assert "phase traced" in text
    assert "step 4 | about to die" in text


def test_the_earliest_error_is_named():
    late, early = process(0, error=(9, "later")), process(1, error=(5, "ValueError: boom"))
    assert outcome.culprit([late, early]) is early
    assert outcome.sentence(early, 2) == "Rank 1 failed: ValueError: boom; it printed nothing."
    assert outcome.sentence(early, 1) == "ValueError: boom"


def test_a_rank_that_ends_without_a_word_is_a_failure_and_a_finished_one_is_not():
    assert outcome.culprit([process(0, code=0, done=True), process(1)]) is None
    silent = process(0, code=0)
    assert outcome.culprit([silent]) is silent
    assert "ended with exit code 0 before its trace was written" in outcome.sentence(silent, 1)


def test_values_of_secret_arguments_are_hidden():
    given = ("--lr=1", "--api-key", "abc", "--hf_token=xyz", "--password", "--verbose", "data")
    shown = manifest.hide_secrets(given)
    assert shown == [
        "--lr=1",
        "--api-key",
        "***",
        "--hf_token=***",
        "--password",
        "--verbose",
        "data",
    ]


def test_git_revision_of_a_repository_and_of_none(tmp_path):
    assert manifest.git_revision(tmp_path / "nowhere") is None
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=b"]
    subprocess.run([*git, "init", "-q"], check=True)
    (tmp_path / "f").touch()
    subprocess.run([*git, "add", "f"], check=True)
    subprocess.run([*git, "commit", "-qm", "x"], check=True)
    clean = manifest.git_revision(tmp_path)
    assert len(clean["revision"]) == 40
    assert clean["dirty"] is False
    (tmp_path / "f").write_text("changed")
    assert manifest.git_revision(tmp_path)["dirty"] is True


def test_facts_of_ranks_are_merged():
    content = {"steps": [], "versions": {"workbench": "1"}, "device": None}
    manifest.merge(content, {"steps": [{"index": 0}], "device": "cuda:1"}, 1)
    manifest.merge(content, {"versions": {"torch": "2"}, "device": "cuda:0"}, 0)
    assert content == {
        "steps": [{"rank": 1, "index": 0}],
        "versions": {"workbench": "1", "torch": "2"},
        "device": "cuda:0",
    }
