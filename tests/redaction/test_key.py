"""The key: private, never lost, never written over anything."""

import json
import os
import stat

import pytest

from workbench.errors import InputError, UsageError
from workbench.redaction import key as keys
from workbench.redaction.key import Key


def test_a_key_reads_back_and_its_owner_alone_may(tmp_path):
    key = Key()
    name = key.pseudonym("op", "acme::route")
    old = os.umask(0)
    try:
        with keys.kept(key, tmp_path / "k.json", is_old=False):
            pass
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "k.json").stat().st_mode) == 0o600
    again = keys.read(tmp_path / "k.json")
    assert again.names == {name: "acme::route"}
    assert again.pseudonym("op", "acme::route") == name
    assert json.loads((tmp_path / "k.json").read_text())["workbench_redaction_key"] == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["k.json"]


def test_a_key_is_extended_and_stays_private(tmp_path):
    path, key = tmp_path / "k.json", Key()
    with keys.kept(key, path, is_old=False):
        pass
    path.chmod(0o644)
    key.pseudonym("op", "x")
    with keys.kept(key, path, is_old=True):
        pass
    assert [*keys.read(path).names.values()] == ["x"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_new_key_goes_again_when_the_copy_fails_and_an_old_one_stays(tmp_path):
    path = tmp_path / "k.json"
    for is_old, left in ((False, []), (True, ["k.json"])):
        with pytest.raises(ZeroDivisionError), keys.kept(Key(), path, is_old=is_old):
            raise ZeroDivisionError
        assert [p.name for p in tmp_path.iterdir()] == left


def test_nothing_is_written_over_by_a_new_key(tmp_path):
    path = tmp_path / "k.json"
    path.write_text("mine")
    with (
        pytest.raises(UsageError, match=r"k.json exists already; name another file with --key"),
        keys.kept(Key(), path, is_old=False),
    ):
        pass
    assert path.read_text() == "mine"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mine", "is no key of a redaction"),
        ('{"traceEvents":[]}', "is no key of a redaction"),
        ('{"workbench_redaction_key":1,"salt":"no hex","names":{}}', "is no key of a redaction"),
        ('{"workbench_redaction_key":9,"salt":"00","names":{}}', "has version 9"),
    ],
)
def test_what_is_no_key_is_refused(tmp_path, text, said):
    (tmp_path / "k").write_text(text)
    with pytest.raises(InputError, match=said):
        keys.read(tmp_path / "k")


def test_two_names_never_share_a_pseudonym(monkeypatch):
    # with one letter, 13 tokens: more names get more letters
    monkeypatch.setattr(keys, "_LENGTH", 1)
    key = Key(bytes(32))
    made = [key.pseudonym("op", f"n{i}") for i in range(60)]
    assert len(set(made)) == 60
    assert [key.pseudonym("op", f"n{i}") for i in range(60)] == made
