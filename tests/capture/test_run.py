"""`record` by name: what it refuses before anything is started."""

import pytest

import workbench as wb
from workbench.errors import UsageError


@pytest.mark.parametrize(
    ("arguments", "fields", "words"),
    [
        (("gpt",), {"step": 3}, "did you mean steps"),
        (("gtp",), {}, "did you mean gpt"),
        (("gpt",), {"presets": "tiny"}, "did you mean preset"),
        ((wb.CapturePlan(workload="gpt"),), {"steps": 3}, "belong into the plan"),
        ((), {"script": "train.py"}, "There is no script at train.py"),
        (("gpt",), {"script": "train.py"}, "Name either a workload"),
        ((), {}, "Name either a workload"),
    ],
)
def test_a_wrong_word_gets_a_sentence(arguments, fields, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=words):
        wb.record(*arguments, **fields)
    assert list(tmp_path.iterdir()) == []


def test_torchrun_is_told_that_a_recording_starts_its_own_ranks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, value in {"TORCHELASTIC_RUN_ID": "none", "WORLD_SIZE": "4", "RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match="without torchrun, with --ranks 4"):
        wb.record("gpt")
    assert list(tmp_path.iterdir()) == []
