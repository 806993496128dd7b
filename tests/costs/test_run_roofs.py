import json
import platform
from dataclasses import replace

import pytest
from costs.made import trace_of

from workbench import verbs
from workbench.costs import ceilings, run_roofs
from workbench.costs.ceilings import VERSION, Ceilings, Compute, Memory
from workbench.costs.machine import cpu_name
from workbench.errors import UsageError
from workbench.trace.core import Trace

NAME, _, REST = cpu_name().rpartition(" (")
HERE = {"host": platform.node(), "cpu": NAME, "threads": int(REST.split()[0])}
FOUND = Ceilings(
    version=VERSION, device="Some CPU", kind="cpu", date="2026-01-31", machine="Linux", torch="2",
    driver=None, threads=2, clock_mhz=None, seconds=1.0,
    compute=(Compute("fp32", 1e11, 0.0, 512, "nn", 7),), memory=(Memory("copy", 64, 2e10, 0.0, 7),),
)  # fmt: skip


@pytest.fixture
def run(tmp_path):
    def made(machine=HERE):
        (tmp_path / "run.json").write_text(json.dumps({"machine": machine}))
        trace = trace_of([], kind="cpu", device=None)
        path = tmp_path / "rank0.trace.json"
        return Trace(replace(trace.meta, path=path), trace.tables), tmp_path

    return made


def test_kept_roofs_go_where_the_run_goes(run, monkeypatch):
    trace, folder = run()
    monkeypatch.setattr(run_roofs, "cached", lambda _: None)
    assert run_roofs.recorded(trace) is None
    run_roofs.keep(FOUND, folder)
    assert run_roofs.recorded(trace) == FOUND
    run({"host": "elsewhere"})  # the folder was copied to another machine
    assert run_roofs.recorded(trace) == FOUND


def test_roofs_of_this_machine_are_not_those_of_another(run, monkeypatch):
    monkeypatch.setattr(run_roofs, "cached", lambda _: FOUND)
    assert run_roofs.recorded(run()[0]) == FOUND
    trace, folder = run(HERE | {"cpu": "Another CPU"})
    assert run_roofs.recorded(trace) is None
    with pytest.raises(UsageError, match="no run folder that this machine recorded"):
        run_roofs.keep(FOUND, folder)
    (folder / "run.json").unlink()
    with pytest.raises(UsageError, match="no run folder that this machine recorded"):
        run_roofs.keep(FOUND, folder)


@pytest.mark.parametrize("text", [b"", b"{", b'{"version": 1}', b"[1]"])
def test_broken_or_old_roofs_are_as_if_there_were_none(run, monkeypatch, text):
    trace, folder = run()
    monkeypatch.setattr(run_roofs, "cached", lambda _: None)
    (folder / "ceilings.json").write_bytes(text)
    assert run_roofs.recorded(trace) is None


def test_a_folder_that_cannot_take_them_is_refused_in_a_sentence(run):
    folder = run()[1]
    (folder / "ceilings.json").mkdir()
    with pytest.raises(UsageError, match=r"ceilings\.json cannot be written"):
        run_roofs.keep(FOUND, folder)


def test_a_wrong_folder_is_refused_before_anything_is_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(ceilings, "ceilings", lambda *_, **__: pytest.fail("was measured"))
    with pytest.raises(UsageError, match="no run folder that this machine recorded"):
        verbs.ceilings(run=tmp_path)
