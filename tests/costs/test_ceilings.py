import subprocess
import sys

import msgspec
import pytest

from workbench.costs import ceilings as c
from workbench.costs.measure import EventTimer, rate, samples
from workbench.costs.roofs import from_ceilings
from workbench.errors import CaptureError, UsageError


def measured(**changes):
    given = {
        "version": c.VERSION, "device": "Some CPU", "kind": "cpu", "date": "2026-01-31",
        "machine": "Linux x86_64", "torch": "2.13.0", "driver": None, "threads": 2,
        "clock_mhz": None, "seconds": 1.0,
        "compute": (c.Compute("fp32", 100e9, 0.1, 512, "nn", 7),
                    c.Compute("bf16", 10e9, 0.1, 512, "nt", 7)),
        "memory": (c.Memory("copy", 10**6, 40e9, 0.1, 7), c.Memory("triad", 10**6, 50e9, 0.1, 7),
                   c.Memory("copy", 10**7, 60e9, 0.1, 7), c.Memory("copy", 10**9, 20e9, 0.1, 7)),
    }  # fmt: skip
    return c.Ceilings(**given | changes)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(c.platformdirs, "user_cache_dir", lambda *_: str(tmp_path))
    return tmp_path


class FakeChild:
    def __init__(self, returncode=0, stdout=b"", stderr=b""):
        self.calls = 0
        self.answer = subprocess.CompletedProcess([], returncode, stdout, stderr)

    def __call__(self, command, **_):
        self.calls += 1
        self.command = command
        return self.answer


def test_measured_once_then_read(cache, monkeypatch):
    child = FakeChild(stdout=msgspec.json.encode(measured()))
    monkeypatch.setattr(c.subprocess, "run", child)
    assert c.cached("cpu") is None
    assert c.ceilings("cpu") == c.ceilings("cpu") == c.cached("cpu") == measured()
    assert child.calls == 1
    assert child.command[1:] == ["-m", "workbench.costs.measure", "cpu"]
    c.ceilings("cpu", refresh=True)
    assert child.calls == 2
    assert [p.suffix for p in (cache / "ceilings").iterdir()] == [".json"]


def test_another_thread_count_measures_anew(cache, monkeypatch):
    child = FakeChild(stdout=msgspec.json.encode(measured()))
    monkeypatch.setattr(c.subprocess, "run", child)
    c.ceilings("cpu")
    monkeypatch.setenv("OMP_NUM_THREADS", "1234")
    assert c.cached("cpu") is None


def test_a_broken_or_older_cache_is_measured_again(cache, monkeypatch):
    monkeypatch.setattr(c.subprocess, "run", FakeChild(stdout=msgspec.json.encode(measured())))
    c.ceilings("cpu")
    (file,) = (cache / "ceilings").iterdir()
    file.write_bytes(msgspec.json.encode(measured(version=c.VERSION - 1)))
    assert c.cached("cpu") is None
    file.write_bytes(b"{ half")
    assert c.cached("cpu") is None


def test_a_failing_child_is_one_sentence(cache, monkeypatch):
    monkeypatch.setattr(c.subprocess, "run", FakeChild(1, stderr=b"Traceback\nNo module 'torch'\n"))
    with pytest.raises(CaptureError, match="of this cpu failed: No module 'torch'"):
        c.ceilings("cpu")


def test_a_slow_child_is_stopped(cache, monkeypatch):
    def slow(command, timeout, **_):
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(c.subprocess, "run", slow)
    with pytest.raises(CaptureError, match="longer than 3 s"):
        c.ceilings("cpu", timeout_s=3)


def test_unknown_devices():
    with pytest.raises(UsageError, match="auto, cpu, cuda"):
        c.identity("tpu")


def test_reading_ceilings_loads_no_torch():
    code = (
        "import sys, workbench.costs.ceilings as c; c.cached('cpu'); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


class FakeCuda:
    """Device time moves by 2 ms a call, whatever the host does in between."""

    def __init__(self):
        self.now_ms = 0.0
        self.synchronized = 0

    def work(self):
        self.now_ms += 2.0

    def Event(self, *, enable_timing):
        assert enable_timing
        cuda = self

        class Event:
            def record(self):
                self.at_ms = cuda.now_ms

            def synchronize(self):
                cuda.synchronized += 1

            def elapsed_time(self, end):
                return end.at_ms - self.at_ms

        return Event()


def test_event_timing_in_seconds_waits_for_the_end():
    cuda = FakeCuda()
    assert EventTimer(cuda)(cuda.work, 5) == pytest.approx(0.010)
    assert cuda.synchronized == 1


def test_samples_batch_short_work_and_limit_long_work():
    calls = []

    def timer_of(seconds):
        def timer(work, times):
            calls.append(times)
            return seconds * times

        return timer

    # 0.1 ms a call: batches of 20 make 2 ms; the budget allows all 25 repeats
    assert samples(timer_of(1e-4), None) == pytest.approx([1e-4] * 25)
    assert calls == [1, 1] + [20] * 25
    calls.clear()
    assert len(samples(timer_of(1.0), None)) == 3  # never fewer than three
    assert calls == [1] * 5


def test_best_of_the_repeats_and_its_spread():
    # 10 units in 0.1, 0.2, 0.125 s: best 100 a second, median 0.125 s -> 1 - 0.8
    best, spread = rate(10, [0.2, 0.1, 0.125])
    assert (best, spread) == pytest.approx((100, 0.2))


def test_roofs_by_working_set_never_grow_with_size():
    # 1 MB was slower (call overhead) than 10 MB, so it gets the 60 GB/s of 10 MB
    roofs = from_ceilings(measured())
    assert [v.bytes_per_s for v in roofs.levels] == [60e9, 60e9, 20e9]
    assert roofs.level(5 * 10**6).bytes_per_s == 60e9
    assert roofs.level(10**7).name == "working set up to 10 MB"
    assert roofs.level(10**7 + 1) is roofs.memory
    assert roofs.level(10**12).bytes_per_s == 20e9
    assert roofs.source == "measured here on 2026-01-31"


def test_repeats_that_differ_are_said_to_be_of_a_busy_machine():
    # median of 0.1, 0.9, 0.4 is 0.4
    noisy = measured(
        compute=(c.Compute("fp32", 1e9, 0.1, 256, "nn", 7),),
        memory=(c.Memory("copy", 10, 1e9, 0.9, 7), c.Memory("copy", 20, 1e9, 0.4, 7)),
    )
    assert from_ceilings(noisy).source == "measured here on 2026-01-31 on a busy machine"
    assert not measured().is_noisy
    assert not measured(compute=(), memory=()).is_noisy


def test_measured_peaks_by_precision():
    peak = from_ceilings(measured()).peak
    assert (peak("fp32", "matrix"), peak("bf16", "matrix")) == (100e9, 10e9)
    assert peak("bf16", "vector") == 100e9
    assert peak("fp8", "matrix") is None
    assert from_ceilings(measured(memory=())).memory is None


@pytest.mark.slow
def test_the_real_measurement_of_this_processor(cache):
    found = c.ceilings("cpu")
    assert {v.precision for v in found.compute} == {"fp32", "bf16"}
    assert all(v.flops_per_s > 0 and 0 <= v.spread < 1 for v in found.compute)
    assert {v.pattern for v in found.memory} == {"copy", "triad"}
    assert c.cached("cpu") == found
