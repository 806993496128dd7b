from pathlib import Path

import pytest

from workbench.capture import CapturePlan, record

FAKE = Path(__file__).parent / "fake"


@pytest.fixture(scope="session")
def real_run(tmp_path_factory):
    """The tiny workload on one rank, by an interpreter that has torch and nothing of ours."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(FAKE / "blocked"))
        patch.setenv("OMP_NUM_THREADS", "1")
        events = []
        out = tmp_path_factory.mktemp("real") / "run"
        plan = CapturePlan(workload="gpt", device="auto", warmup=3, steps=3, untraced=2, out=out)
        run = record(plan, on_event=events.append)
        run.wait(300)
    run.events = events
    return run


@pytest.fixture(scope="session")
def two_ranks(tmp_path_factory):
    """The tiny workload on two ranks over gloo."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        out = tmp_path_factory.mktemp("two") / "run"
        plan = CapturePlan(
            workload="gpt", device="cpu", ranks=2, warmup=1, untraced=0, steps=2, out=out
        )
        run = record(plan)
        run.wait(300)
    return run


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Start the loop on the fake torch, with some tricks; a run left over is cancelled."""
    monkeypatch.setenv("PYTHONPATH", str(FAKE))
    runs = []

    def begin(*tricks, loop=100_000, on_event=None, **options):
        plan = CapturePlan(
            script=FAKE / "loop.py",
            arguments=(str(loop), *tricks),
            **{"warmup": 1, "untraced": 1, "steps": 1, "out": tmp_path / "run"} | options,
        )
        runs.append(record(plan, on_event=on_event))
        return runs[-1]

    yield begin
    for run in runs:
        run.cancel()
        run.wait(10)


@pytest.fixture(scope="session")
def gone():
    """Return a function that says whether a process has ended.

    A zombie has ended too, whoever should have reaped it.
    """

    def ended(pid):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        return state == "Z"

    return ended
