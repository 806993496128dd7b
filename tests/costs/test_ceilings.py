import subprocess
import sys

import msgspec
import pytest

from workbench.costs import ceilings as c
from workbench.costs.machine import identity
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


def test_a_full_sweep_stands_for_a_short_one_and_not_the_other_way(cache, monkeypatch):
    short, full = (
        FakeChild(stdout=msgspec.json.encode(measured(is_full=f))) for f in (False, True)
    )
    monkeypatch.setattr(c.subprocess, "run", short)
    c.ceilings("cpu")
    monkeypatch.setattr(c.subprocess, "run", full)
    assert c.ceilings("cpu", full=True).is_full
    assert full.command[1:] == ["-m", "workbench.costs.measure", "cpu", "--full"]
    assert c.ceilings("cpu") == c.ceilings("cpu", full=True)
    assert (short.calls, full.calls) == (1, 1)


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


def test_what_a_library_prints_is_passed_over_and_other_output_is_one_sentence(cache, monkeypatch):
    said = b"hello from a library\n" + msgspec.json.encode(measured())
    monkeypatch.setattr(c.subprocess, "run", FakeChild(stdout=said))
    assert c.ceilings("cpu") == measured()
    monkeypatch.setattr(c.subprocess, "run", FakeChild(stdout=b"hello\n"))
    with pytest.raises(CaptureError, match="of this cpu failed: b'hello' came in their place"):
        c.ceilings("cpu", refresh=True)


def test_a_cache_that_cannot_be_written_is_one_sentence(cache, monkeypatch):
    (cache / "ceilings").write_text("a file where the folder is to be")
    monkeypatch.setattr(c.subprocess, "run", FakeChild(stdout=msgspec.json.encode(measured())))
    with pytest.raises(CaptureError, match="cannot be kept in"):
        c.ceilings("cpu")


class FakeNvml:
    """Two GPUs of different models."""

    NVMLError = LookupError
    names = {"0": "NVIDIA T4", "1": "NVIDIA L4", "GPU-bb": "NVIDIA L4"}  # noqa: RUF012

    def handle(self, which):
        if str(which) not in self.names:
            raise LookupError
        return str(which)

    nvmlDeviceGetHandleByIndex = nvmlDeviceGetHandleByUUID = handle

    def nvmlInit(self):
        pass

    nvmlShutdown = nvmlInit

    def nvmlDeviceGetName(self, handle):
        return self.names[handle]

    def nvmlSystemGetDriverVersion(self):
        return "570"


@pytest.mark.parametrize(
    ("visible", "name"),
    [(None, "NVIDIA T4"), ("1,0", "NVIDIA L4"), ("GPU-bb", "NVIDIA L4"),
     ("", None), ("-1", None), ("7", None), ("NoDevFiles", None)],
)  # fmt: skip
def test_the_gpu_is_the_first_that_this_process_may_use(monkeypatch, visible, name):
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    if name is None:
        assert identity("auto").kind == "cpu"
        with pytest.raises(UsageError, match="no NVIDIA GPU that this process can use"):
            identity("cuda")
    else:
        assert (identity("auto").kind, identity("cuda").device) == ("cuda", name)


def test_a_slow_child_is_stopped(cache, monkeypatch):
    def slow(command, timeout, **_):
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(c.subprocess, "run", slow)
    with pytest.raises(CaptureError, match="longer than 3 s"):
        c.ceilings("cpu", timeout_s=3)


def test_unknown_devices():
    with pytest.raises(UsageError, match="auto, cpu, cuda"):
        identity("tpu")


def test_reading_ceilings_loads_no_torch():
    code = (
        "import sys, workbench.costs.ceilings as c; c.cached('cpu'); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_roofs_by_working_set_never_grow_with_size():
    # 1 MB was slower (call overhead) than 10 MB, so it gets the 60 GB/s of 10 MB
    roofs = from_ceilings(measured())
    assert [v.bytes_per_s for v in roofs.levels] == [60e9, 60e9, 20e9]
    assert roofs.level(5 * 10**6).bytes_per_s == 60e9
    assert roofs.level(10**7).name == "working set up to 10 MB"
    assert roofs.level(10**7 + 1) is roofs.memory
    assert roofs.level(10**12).bytes_per_s == 20e9
    assert roofs.source == "measured on 2026-01-31"


CACHES = (c.Cache("L1", 10**5), c.Cache("L2", 2 * 10**6), c.Cache("L3", 2 * 10**7))


def test_roofs_by_cache_are_the_best_stream_that_fits_no_smaller_one():
    # in L2 1 MB: 40 and 50 GB/s; in L3 10 MB: 60, which L2 has too; L1 has no stream of its own
    roofs = from_ceilings(measured(caches=CACHES))
    assert [(v.name, v.bytes_per_s, v.up_to_bytes) for v in roofs.levels] == [
        ("L1", 60e9, 1e5), ("L2", 60e9, 2e6), ("L3", 60e9, 2e7), ("memory", 20e9, None),
    ]  # fmt: skip
    assert roofs.level(2 * 10**7).name == "L3"
    assert roofs.level(2 * 10**7 + 1) is roofs.memory


def test_the_table_names_shapes_and_levels():
    found = measured(
        caches=CACHES,
        compute=(c.Compute("fp32", 1e9, 0.1, 512, "nt", 7, m=64, k=128),),
        attention=(c.Attention("bf16", 2e9, 0.2, 3, 1, 8, 256, 64, is_causal=True),),
        memory=(c.Memory("read", 10**6, 4e9, 0.1, 7), c.Memory("copy", 10**9, 2e9, 0.1, 7)),
    )
    table = c.frame(found)
    assert table.schema == c.FRAME
    assert table.select("roof", "what", "n").rows() == [
        ("compute", "fp32 product 64x512x128, nt", 512),
        ("attention", "bf16 1x8x256x64, causal", 256),
        ("memory", "read, L2", None),
        ("memory", "copy, memory", None),
    ]
    assert c.about(found)["sweep"] == "short"


def test_repeats_that_differ_are_said_to_be_of_a_busy_machine():
    # median of 0.1, 0.9, 0.4 is 0.4
    noisy = measured(
        compute=(c.Compute("fp32", 1e9, 0.1, 256, "nn", 7),),
        memory=(c.Memory("copy", 10, 1e9, 0.9, 7), c.Memory("copy", 20, 1e9, 0.4, 7)),
    )
    assert from_ceilings(noisy).source == "measured on 2026-01-31 on a busy machine"
    assert not measured().is_noisy
    # where all samples were equally slow, the processors tell
    assert not measured(others_share=0.1).is_noisy
    crowded = measured(others_share=0.55)
    assert crowded.is_noisy
    assert "on 55% of the processors" in c.about(crowded)["noisy"]
    assert not measured(compute=(), memory=()).is_noisy
    # processors that others use do not slow a GPU
    gpu = measured(kind="cuda", others_share=0.55)
    assert not gpu.is_noisy
    assert c.about(gpu)["noisy"] is None


def test_measured_peaks_by_precision():
    peak = from_ceilings(measured()).peak
    assert (peak("fp32", "matrix"), peak("bf16", "matrix")) == (100e9, 10e9)
    assert peak("bf16", "vector") == 100e9
    assert (peak("tf32", "special"), peak("bf16", "memory")) == (100e9, 10e9)
    assert peak("fp8", "matrix") is None
    # a processor without units for bf16 may do attention faster than a product of its own
    faster = (c.Attention("bf16", 70e9, 0.1, 7, 1, 4, 256, 64, is_causal=False),)
    assert from_ceilings(measured(attention=faster)).peak("bf16", "matrix") == 70e9
    assert from_ceilings(measured(memory=())).memory is None


@pytest.mark.slow
def test_the_real_measurement_of_this_processor(cache):
    found = c.ceilings("cpu")
    assert {v.precision for v in found.compute} == {"fp64", "fp32", "bf16", "fp16"}
    assert all(v.flops_per_s > 0 and 0 <= v.spread < 1 for v in found.compute)
    assert {v.precision for v in found.attention} == {"fp32", "bf16"}
    assert {v.pattern for v in found.memory} == {"copy", "triad", "read", "write", "update"}
    assert c.cached("cpu") == found


@pytest.mark.parametrize("rate", [0.0, -1.0, 5e-324])
def test_rates_that_no_device_has_are_no_roofs(rate):
    compute = (c.Compute("fp32", rate, 0.1, 512, "nn", 7),)
    memory = (c.Memory("copy", 10**6, rate, 0.1, 7),)
    roofs = from_ceilings(measured(compute=compute, memory=memory))
    assert roofs.peak("fp32", "matrix") is None
    assert roofs.levels == ()
