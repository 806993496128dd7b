"""A trace as a folder of Parquet: the same tables come back, and damage is told in a sentence."""

import json
from dataclasses import replace
from pathlib import Path

import msgspec
import polars as pl
import pytest
from tinytrace import call, kernel, op, step, write

from workbench.errors import InputError, UsageError
from workbench.trace import schema, store
from workbench.trace.core import Device, Job, ProcessGroup
from workbench.trace.open import open_source
from workbench.trace.synthetic import generate

FRAME = {"ph": "X", "cat": "python_function", "name": "train.py(3): loop", "pid": 9, "tid": 1}
EVENTS = [
    step(4, 10, 90),
    op("aten::mm", 20, 30, **{"Input Dims": [[2, 3], [3, 4]]}),
    call("cudaLaunchKernel", 25, 5, 77),
    kernel("gemm", 40, 20, 77, grid=[8, 1, 1], block=[128, 1, 1]),
    FRAME | {"ts": 10, "dur": 80, "args": {"Python id": 1}},
]


@pytest.fixture
def trace(tmp_path):
    return open_source(write(tmp_path, EVENTS, distributedInfo={"rank": 0, "world_size": 2}))


def same(one, other):
    assert {*one.tables} == {*other.tables} == {*schema.TABLES} - {"frames"}
    for name in one.tables:
        assert one.tables[name].schema == other.tables[name].schema, name
        assert one.tables[name].equals(other.tables[name]), name
    assert one.host_steps.equals(other.host_steps)
    assert one.frames.equals(other.frames)


def test_every_table_comes_back_with_its_types(trace, tmp_path):
    folder = store.save(trace, tmp_path / "stored", frames=True)
    again = open_source(folder)
    same(again, trace)
    assert again.frames.height == 1
    assert again.meta == replace(trace.meta, path=folder)
    # hand-made: the kernel's name is a category and its grid three small integers
    assert again.activities.row(0, named=True)["grid"] == [8, 1, 1]
    assert again.activities.schema["name"] == pl.Categorical()
    assert again.host_steps.rows() == [(4, 0, 90_000, True)]


def test_a_table_is_read_only_when_asked_for(trace, tmp_path, monkeypatch):
    folder = store.save(trace, tmp_path / "stored")
    read = []
    whole = store.read_table
    monkeypatch.setattr(store, "read_table", lambda f, n, m: read.append(n) or whole(f, n, m))
    again = open_source(folder)
    assert again.ops.height == again.ops.height == 1
    assert read == ["host_steps", "ops"]


def test_metadata_comes_back_whole(trace, tmp_path):
    odd = replace(
        trace.meta,
        path=Path(b"/a/\xff.json".decode("utf-8", "surrogateescape")),
        devices=(Device(0, None, {"big": 10**40, "nested": [{"x": 1.5}], "text": "ü\0"}),),
        groups=(ProcessGroup("0", None, (0, 1)),),
        origin_ns=-(2**62),
        producer={"version": "x", "switch": True},
    )
    folder = store.save(replace(trace, meta=odd), tmp_path / "stored")
    assert store.load(folder).meta == replace(odd, path=folder)
    assert b"/a/" not in (folder / store.MANIFEST).read_bytes()  # an export is for others


def test_what_json_can_not_hold_is_refused_in_a_sentence(trace, tmp_path):
    odd = replace(trace.meta, producer={"n": "\udc80"})
    with pytest.raises(InputError, match=r"stored can't be written: .*\.$"):
        store.save(replace(trace, meta=odd), tmp_path / "stored")
    assert [f.name for f in tmp_path.iterdir()] == ["t.json"]


def test_frames_that_were_not_stored_are_not_an_empty_table(trace, tmp_path):
    again = store.load(store.save(trace, tmp_path / "a"))
    with pytest.raises(InputError, match="without Python frames; open the recording"):
        _ = again.frames
    assert trace.frames.height == 1
    assert store.load(store.save(trace, tmp_path / "b")).frames.height == 1  # built before


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def break_bit(folder):
    flip(folder / "ops.parquet", 100)


def cut(folder):
    path = folder / "ops.parquet"
    path.write_bytes(path.read_bytes()[:-1])


def lose(folder):
    (folder / "ops.parquet").unlink()


def lie(folder, **claims):
    """Give the manifest other claims about the operators, as a stranger might."""
    path = folder / store.MANIFEST
    held = json.loads(path.read_text())
    held["tables"]["ops"] |= claims
    path.write_text(json.dumps(held))


def put(folder, frame):
    """Put another table in the place of the operators, with checksum and all."""
    stored = store._write_table(folder / "ops.parquet", frame)
    lie(folder, **msgspec.to_builtins(stored))


@pytest.mark.parametrize("break_", [break_bit, cut, lose], ids=lambda f: f.__name__)
def test_damage_is_told_when_the_table_is_read(trace, tmp_path, break_):
    folder = store.save(trace, tmp_path / "stored")
    break_(folder)
    again = open_source(folder)
    assert again.activities.height == 1
    with pytest.raises(InputError, match=r"stored holds a stored trace .*; export it again\.$"):
        _ = again.ops


HOSTILE = {
    "too few rows": lambda d, f: lie(d, rows=0),
    "a bomb": lambda d, f: lie(d, rows=2**62),
    "no parquet": lambda d, f: (d / "ops.parquet").write_bytes(b"PAR1" * 9) and lie(d, bytes=36),
    "a column less": lambda d, f: put(d, f.drop("name")),
    "another type": lambda d, f: put(d, f.with_columns(name=pl.lit(1))),
    "a null": lambda d, f: put(d, f.with_columns(start_ns=pl.lit(None, pl.Int64()))),
    "a parent that isn't there": lambda d, f: put(d, f.with_columns(parent=pl.lit(7, schema.ID))),
    "a thread that isn't there": lambda d, f: put(d, f.with_columns(thread=pl.lit(-1, pl.Int32()))),
    "a negative duration": lambda d, f: put(d, f.with_columns(dur_ns=pl.lit(-1, pl.Int64()))),
    "ids that are no rows": lambda d, f: put(d, f.with_columns(id=pl.lit(3, schema.ID))),
}


@pytest.mark.parametrize("attack", HOSTILE)
def test_a_stranger_s_folder_is_refused_in_a_sentence(trace, tmp_path, attack):
    folder = store.save(trace, tmp_path / "stored")
    HOSTILE[attack](folder, trace.ops)
    with pytest.raises(InputError, match=r"^[^\n]*stored trace[^\n]*; export it again\.$"):
        _ = open_source(folder).ops


@pytest.mark.parametrize(
    "text", ["", "{", "[1]", '{"store": 1}', "\0" * 99, '{"store": 9, "reader": "", "tables": {}}']
)
def test_a_broken_manifest_is_refused_in_a_sentence(tmp_path, text):
    (tmp_path / store.MANIFEST).write_text(text)
    with pytest.raises(InputError, match=r"; export it again\.$"):
        open_source(tmp_path)


def test_a_newer_form_is_named(trace, tmp_path):
    folder = store.save(trace, tmp_path / "stored")
    path = folder / store.MANIFEST
    path.write_text(path.read_text().replace('"store":1', '"store":2'))
    with pytest.raises(InputError, match="written in form 2, and this version reads 1"):
        open_source(folder)


def test_nothing_is_overwritten_unasked_and_only_a_stored_trace_at_all(trace, tmp_path):
    folder = store.save(trace, tmp_path / "stored")
    with pytest.raises(UsageError, match="exists already; give --force"):
        store.save(trace, folder)
    store.save(trace, folder, force=True)
    (folder / "thesis.txt").write_text("mine")
    with pytest.raises(UsageError, match="is no exported trace, so it isn't replaced"):
        store.save(trace, folder, force=True)
    assert (folder / "thesis.txt").read_text() == "mine"


def test_a_folder_of_stored_ranks_opens_as_a_job(tmp_path):
    generate().write(tmp_path / "run")
    job = open_source(tmp_path / "run")
    for rank in job.ranks:
        store.save(rank, tmp_path / "out" / f"rank{rank.meta.rank}", frames=True)
    again = open_source(tmp_path / "out")
    assert isinstance(again, Job)
    for one, other in zip(again.ranks, job.ranks, strict=True):
        same(one, other)
