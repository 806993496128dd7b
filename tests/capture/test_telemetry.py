"""What is sampled beside a run: GPUs through either library, the processor, and how often."""

import csv
import ctypes
import shutil
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from workbench.capture import host, nvml
from workbench.capture.host import Host
from workbench.capture.nvml import THROTTLES, Nvml
from workbench.capture.nvml_library import Library, NvmlError
from workbench.capture.rapl import Rapl
from workbench.capture.telemetry import COLUMNS, COST, MOST_FAST, Telemetry


class FakeNvml:
    """One GPU, as pynvml tells of it; it has no temperature sensor."""

    NVML_TEMPERATURE_GPU, NVML_CLOCK_SM, NVML_CLOCK_MEM = 0, 1, 2
    is_there = True

    def nvmlInit(self):
        if not self.is_there:
            raise RuntimeError("driver not loaded")

    def nvmlShutdown(self):
        pass

    def nvmlDeviceGetCount(self):
        return 1

    def nvmlDeviceGetHandleByIndex(self, index):
        return 7000 + index

    def nvmlSystemGetDriverVersion(self):
        return b"550.1"

    def nvmlDeviceGetName(self, handle):
        assert handle == 7000
        return b"Fake H200"

    def nvmlDeviceGetUUID(self, handle):
        return b"GPU-aa"

    def nvmlDeviceGetPowerUsage(self, handle):
        return 123_456

    def nvmlDeviceGetTotalEnergyConsumption(self, handle):
        return 2**40  # more than 32 bits hold

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle):
        return 0x44

    def nvmlDeviceGetUtilizationRates(self, handle):
        return SimpleNamespace(gpu=87, memory=3)

    def nvmlDeviceGetMemoryInfo(self, handle):
        return SimpleNamespace(total=9, free=4, used=2**33)

    def nvmlDeviceGetTemperature(self, handle, sensor):
        raise RuntimeError("not supported")

    def nvmlDeviceGetClockInfo(self, handle, which):
        return {1: 1980, 2: 2619}[which]


class FakeShared:
    """The same GPU behind C functions: values go out through pointers, and codes come back."""

    def __init__(self, gpu):
        self.gpu = gpu

    def __getattr__(self, name):
        function = getattr(self.gpu, name.removesuffix("_v2"))
        takes = function.__code__.co_argcount - 1

        def call(*arguments):
            given, out = arguments[:takes], arguments[takes:]
            try:
                found = function(*(a.value for a in given))
            except RuntimeError:
                return 3
            if isinstance(found, bytes):
                target, size = out
                assert len(found) < size.value
                ctypes.memmove(target, found + b"\0", len(found) + 1)
            elif isinstance(found, SimpleNamespace):
                for field, value in vars(found).items():
                    setattr(out[0]._obj, field, value)
            elif out:
                out[0]._obj.value = found
            return 0

        return call


LIBRARIES = [FakeNvml, lambda: Library(FakeShared(FakeNvml()))]


@pytest.mark.parametrize("library", LIBRARIES, ids=["pynvml", "ctypes"])
def test_units_are_converted_and_what_a_gpu_lacks_is_left_out(library):
    gpus = Nvml(library())
    assert (gpus.driver, gpus.names) == ("550.1", ["Fake H200"])
    assert gpus.sample() == [
        {
            "device": "gpu0",
            "utilisation_pct": 87,
            "memory_used_bytes": 2**33,
            "power_w": pytest.approx(123.456),
            "temperature_c": None,
            "core_clock_mhz": 1980,
            "memory_clock_mhz": 2619,
            "uuid": "GPU-aa",
            "energy_j": pytest.approx(2**40 / 1000),
            "throttle_reasons": 0x44,
        }
    ]
    gpus.close()


def test_throttle_reasons_under_their_newer_name():
    class Newer(FakeNvml):
        nvmlDeviceGetCurrentClocksThrottleReasons = None

        def nvmlDeviceGetCurrentClocksEventReasons(self, handle):
            return 0x80

    assert Nvml(Newer()).sample()[0]["throttle_reasons"] == 0x80


def test_a_code_of_the_library_is_an_error():
    library = Library(FakeShared(FakeNvml()))
    with pytest.raises(NvmlError, match="nvmlDeviceGetTemperature answered 3"):
        library.nvmlDeviceGetTemperature(ctypes.c_void_p(7000), 0)


@pytest.mark.parametrize("has_package", [True, False])
def test_either_library_is_taken_and_without_a_driver_there_are_no_gpus(monkeypatch, has_package):
    gpu = FakeNvml()
    shared = FakeShared(gpu)
    monkeypatch.setitem(sys.modules, "pynvml", gpu if has_package else None)
    monkeypatch.setattr(nvml, "Library", lambda: Library(shared))
    assert Nvml.open().names == ["Fake H200"]
    gpu.is_there = False
    assert Nvml.open() is None


def test_a_machine_without_the_drivers_library_has_no_gpus(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setattr("workbench.capture.nvml_library.SHARED", "libno-such-thing.so.1")
    assert Nvml.open() is None


def test_bits_that_do_not_slow_the_work_are_no_throttling():
    assert not THROTTLES.keys() & {0x1, 0x2, 0x100}
    assert all(bit.bit_count() == 1 for bit in THROTTLES)


def zone(root, name, called, energy_uj, most=999_999):
    folder = root / name
    folder.mkdir(exist_ok=True)
    (folder / "name").write_text(f"{called}\n")
    (folder / "max_energy_range_uj").write_text(f"{most}\n")
    (folder / "energy_uj").write_text(f"{energy_uj}\n")


def test_energy_of_packages_adds_up_across_the_end_of_their_counter(tmp_path):
    zone(tmp_path, "intel-rapl:0", "package-0", 900_000)
    zone(tmp_path, "intel-rapl:1", "package-1", 0)
    zone(tmp_path, "intel-rapl:0:0", "core", 5)
    zone(tmp_path, "intel-rapl:2", "psys", 5)
    rapl = Rapl(tmp_path)
    assert rapl.joules() == 0
    # 900,000 to 999,999, then 0: 100,000; then to 300,000; the other package 200,000
    zone(tmp_path, "intel-rapl:0", "package-0", 300_000)
    zone(tmp_path, "intel-rapl:1", "package-1", 200_000)
    assert rapl.joules() == pytest.approx(0.6)
    (tmp_path / "intel-rapl:1" / "energy_uj").unlink()
    assert rapl.joules() == pytest.approx(0.6)


def test_counters_that_cannot_be_read_are_none(tmp_path):
    assert Rapl(tmp_path / "nowhere").joules() is None
    zone(tmp_path, "intel-rapl:0", "package-0", "not yours")
    assert Rapl(tmp_path).joules() is None


class FakeSystem:
    """Four cores of which the run may use 0 and 1; times are seconds since the start."""

    Error = RuntimeError

    def __init__(self):
        self.idle, self.busy = [0.0] * 4, [0.0] * 4
        self.processes = {1: 5.0}
        self.children = {}
        self.gone = set()

    def cpu_times(self, *, percpu):
        assert percpu
        return [Core(b, i) for b, i in zip(self.busy, self.idle, strict=True)]

    def virtual_memory(self):
        return SimpleNamespace(used=77)

    def Process(self, pid):
        system = self

        class Process:
            def __init__(self):
                self.pid = pid

            def cpu_times(self):
                if pid in system.gone:
                    raise RuntimeError
                return SimpleNamespace(user=system.processes[pid], system=0.0)

            def children(self, *, recursive):
                assert recursive
                return [system.Process(p) for p in system.children.get(pid, ())]

        return Process()


class Core(tuple):
    """What psutil tells of a core: user, idle, iowait, and guests that are part of user."""

    __slots__ = ()

    def __new__(cls, busy, idle):
        return super().__new__(cls, (busy, idle, 0.0, busy / 2))

    idle = property(lambda self: self[1])
    iowait = property(lambda self: self[2])
    guest = property(lambda self: self[3])


@pytest.fixture
def system(monkeypatch):
    fake, clock = FakeSystem(), SimpleNamespace(now=100.0)
    fake.clock = clock
    monkeypatch.setattr(host, "psutil", fake)
    monkeypatch.setattr(host, "_usable", lambda: {0, 1})
    monkeypatch.setattr(host.time, "perf_counter", lambda: clock.now)
    return fake


def test_load_of_others_is_what_the_run_did_not_use_of_its_cores(system, tmp_path):
    sampler = Host(lambda: [1], Rapl(tmp_path))
    # One second: core 0 busy, core 1 half, core 2 busy, core 3 idle. The run used 0.9 s.
    system.clock.now += 1
    system.busy, system.idle = [1, 0.5, 1, 0], [0, 0.5, 0, 1]
    system.processes[1] += 0.9
    (row,) = sampler.sample()
    assert row["utilisation_pct"] == 62.5  # 2.5 of 4 core seconds
    assert row["other_pct"] == 30.0  # 1.5 - 0.9 of 2 core seconds
    assert (row["memory_used_bytes"], row["energy_j"]) == (77, None)
    assert "power_w" not in row


def test_children_belong_to_the_run_and_those_that_end_keep_their_time(system, tmp_path):
    sampler = Host(lambda: [1], Rapl(tmp_path))
    system.children[1], system.processes[2] = [2], 0.6
    system.clock.now += 2  # children are looked for as often
    system.busy, system.idle = [1, 1, 0, 0], [0, 0, 1, 1]
    system.processes[1] += 0.8
    assert sampler.sample()[0]["other_pct"] == 30.0  # (2 - 0.8 - 0.6) / 2
    system.gone.add(2)
    system.clock.now += 1
    system.busy, system.idle = [2, 1, 0, 0], [0, 1, 2, 2]
    system.processes[1] += 1.0
    assert sampler.sample()[0]["other_pct"] == 0.0


def test_power_of_the_packages(system, tmp_path):
    zone(tmp_path, "intel-rapl:0", "package-0", 0, most=10**9)
    sampler = Host(lambda: [1], Rapl(tmp_path))
    zone(tmp_path, "intel-rapl:0", "package-0", 30_000_000, most=10**9)
    system.clock.now += 0.5
    system.busy, system.idle = [0, 0, 0, 0], [0.5] * 4
    (row,) = sampler.sample()
    assert (row["energy_j"], row["power_w"]) == (30.0, 60.0)  # 30 J in half a second


def test_a_second_sample_at_once_has_no_rates(system, tmp_path):
    (row,) = Host(lambda: [1], Rapl(tmp_path)).sample()
    assert set(row) == {"device", "memory_used_bytes", "energy_j"}


def test_the_real_host_has_its_rates():
    sampler = Host()
    while "utilisation_pct" not in (row := sampler.sample()[0]):
        pass
    assert 0 <= row["other_pct"] <= 100


def rows(path):
    return list(csv.DictReader(path.open()))


def test_a_row_a_device_with_timestamps(tmp_path):
    before = time.time_ns()
    telemetry = Telemetry(tmp_path / "t.csv", [Host(), Nvml(FakeNvml())], slow_s=60)
    telemetry.start()
    telemetry.stop()
    found = rows(tmp_path / "t.csv")
    assert tuple(found[0]) == COLUMNS
    assert [row["device"] for row in found] == ["cpu", "gpu0"]
    assert before <= int(found[0]["t_unix_ns"]) <= time.time_ns()
    assert (found[0]["temperature_c"], found[1]["temperature_c"]) == ("", "")
    assert found[1]["throttle_reasons"] == str(0x44)


def test_a_short_run_has_samples_at_the_border_of_each_phase(tmp_path):
    # With hours between samples, all that there are come from the borders and the end.
    telemetry = Telemetry(tmp_path / "t.csv", [Nvml(FakeNvml())], fast_s=1e4, slow_s=1e4)
    telemetry.start()
    for taken, phase in enumerate(("setup", "warmup", "traced"), 1):
        telemetry.pace(phase)
        until = time.monotonic() + 20
        while telemetry.samples < taken and time.monotonic() < until:
            time.sleep(0.001)
    telemetry.stop()
    assert len(rows(tmp_path / "t.csv")) == 4


def test_how_often(tmp_path):
    telemetry = Telemetry(tmp_path / "t.csv", [], fast_s=0.05, slow_s=0.5)
    assert telemetry.interval_s(0.0) == 0.5
    telemetry.pace("untraced")
    assert telemetry.interval_s(0.0) == 0.05
    # 4 samples that took 40 ms together may come each 0.5 s, to stay at 2 % of a core
    telemetry.samples = 4
    assert COST == 0.02
    assert telemetry.interval_s(0.040) == pytest.approx(0.5)
    telemetry.samples = MOST_FAST
    assert telemetry.interval_s(0.0) == 0.5
    telemetry.samples = 0
    telemetry.pace("export")
    assert telemetry.interval_s(0.0) == 0.5


def test_telemetry_that_cannot_be_written_says_so_and_goes_on(tmp_path):
    telemetry = Telemetry(tmp_path / "missing" / "t.csv", [])
    telemetry.start()
    telemetry.stop()
    assert "telemetry stopped" in telemetry.error


COMPILED = """
#include <string.h>
typedef struct gpu *device;
typedef struct { unsigned gpu, memory; } rates;
typedef struct { unsigned long long total, free, used; } bytes;
static int there;
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlSystemGetDriverVersion(char *v, unsigned n) { return n < 6 ? 7 : (strcpy(v, "550.1"), 0); }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 1; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, device *d) { *d = (device)&there; return (int)i; }
int nvmlDeviceGetName(device d, char *v, unsigned n) { strncpy(v, "Compiled", n); return 0; }
int nvmlDeviceGetUUID(device d, char *v, unsigned n) { strncpy(v, "GPU-cc", n); return 0; }
int nvmlDeviceGetPowerUsage(device d, unsigned *mw) {
    *mw = 350000; return d == (device)&there ? 0 : 2; }
int nvmlDeviceGetTotalEnergyConsumption(device d, unsigned long long *mj) {
    *mj = 1ULL << 40; return 0; }
int nvmlDeviceGetCurrentClocksThrottleReasons(device d, unsigned long long *bits) {
    *bits = 0x40; return 0; }
int nvmlDeviceGetUtilizationRates(device d, rates *r) { r->gpu = 87; r->memory = 3; return 0; }
int nvmlDeviceGetMemoryInfo(device d, bytes *m) { m->used = 1ULL << 33; return 0; }
int nvmlDeviceGetTemperature(device d, int sensor, unsigned *c) { *c = 41 + sensor; return 0; }
int nvmlDeviceGetClockInfo(device d, int which, unsigned *mhz) { *mhz = 1000 * which; return 0; }
"""
"""A library with the signatures of nvml.h."""


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_a_compiled_library_is_called_as_its_header_says(tmp_path, monkeypatch):
    (tmp_path / "nvml.c").write_text(COMPILED)
    shared = tmp_path / "libnvidia-ml.so.1"
    words = ["cc", "-w", "-shared", "-fPIC", "-o", str(shared), str(tmp_path / "nvml.c")]
    subprocess.run(words, check=True)
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setattr("workbench.capture.nvml_library.SHARED", str(shared))
    gpus = Nvml.open()
    assert (gpus.driver, gpus.names) == ("550.1", ["Compiled"])
    (row,) = gpus.sample()
    assert (row["power_w"], row["energy_j"]) == (350.0, pytest.approx(2**40 / 1000))
    assert (row["memory_used_bytes"], row["utilisation_pct"]) == (2**33, 87)
    assert (row["temperature_c"], row["throttle_reasons"]) == (41, 0x40)
    assert (row["core_clock_mhz"], row["memory_clock_mhz"]) == (1000, 2000)
    assert row["uuid"] == "GPU-cc"
