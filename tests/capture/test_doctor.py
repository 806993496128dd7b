"""What `workbench doctor` says of machines of several kinds."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from workbench.capture import doctor
from workbench.capture.doctor import gpus, system, torch_side

HERE = {"version": "2.8", "build": "CPU", "gpus": 0, "operators": 3, "kernels": 0}
HERE |= {"nccl": False, "gloo": None}
GPU = HERE | {"build": "12.8", "gpus": 2, "kernels": 1, "nccl": True}


def states(rows):
    return {row.check: row.state for row in rows}


def fix_of(rows, check):
    return next(row.fix for row in rows if row.check == check)


@pytest.mark.parametrize(
    ("told", "check", "state", "words"),
    [
        (HERE, "cuda", "absent", "install a GPU build of torch"),
        (HERE | {"build": "12.8"}, "cuda", "absent", "nvidia-smi"),
        (HERE | {"operators": 0}, "profiler", "missing", "reinstall"),
        (HERE | {"gloo": "RuntimeError: no"}, "ranks", "missing", "GLOO_SOCKET_IFNAME"),
        (GPU | {"kernels": 0}, "gpu kernels", "missing", "NVreg_RestrictProfilingToAdminUsers=0"),
        (GPU | {"nccl": False}, "ranks", "missing", "NCCL"),
    ],
)
def test_what_torch_lacks_has_a_fix(told, check, state, words):
    rows = torch_side.rows_of(told)
    assert states(rows)[check] == state
    assert words in fix_of(rows, check)


def test_a_whole_torch_is_ok():
    assert set(states(torch_side.rows_of(GPU)).values()) == {"ok"}
    assert states(torch_side.rows_of(HERE)) == {
        "torch": "ok",
        "cuda": "absent",
        "profiler": "ok",
        "ranks": "ok",
    }


def fake_nvml(**sample):
    row = {"power_w": 1.0, "core_clock_mhz": 1, "utilisation_pct": 1} | sample
    return SimpleNamespace(names=["Fake"], driver="570.1", sample=lambda: [row])


def test_a_driver_that_keeps_counters_to_itself(tmp_path, monkeypatch):
    (tmp_path / "params").write_text("RmProfilingAdminOnly: 1\n")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    rows = gpus.gpu_rows(fake_nvml(), tmp_path)
    assert states(rows) == {"gpu": "ok", "nvml": "ok", "gpu counters": "missing"}
    assert "NVreg_RestrictProfilingToAdminUsers=0" in fix_of(rows, "gpu counters")
    (tmp_path / "params").write_text("RmProfilingAdminOnly: 0\n")
    assert states(gpus.gpu_rows(fake_nvml(), tmp_path))["gpu counters"] == "ok"


def test_gpus_that_are_half_there(tmp_path):
    assert states(gpus.gpu_rows(None, tmp_path))["gpu"] == "absent"
    (tmp_path / "version").touch()
    rows = gpus.gpu_rows(None, tmp_path)
    assert states(rows)["gpu"] == "missing"
    assert "nvidia-smi" in fix_of(rows, "gpu")
    rows = gpus.gpu_rows(fake_nvml(power_w=None), tmp_path)
    assert next(r.found for r in rows if r.check == "nvml") == "the GPU does not tell its power"
    none = SimpleNamespace(names=[], driver="570.1")
    assert states(gpus.gpu_rows(none, tmp_path))["gpu"] == "missing"


def test_profilers_are_those_on_the_path(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert states(gpus.profiler_rows()) == {"nsys": "absent", "ncu": "absent"}
    (tmp_path / "nsys").write_text("#!/bin/sh\n")
    (tmp_path / "nsys").chmod(0o755)
    assert states(gpus.profiler_rows()) == {"nsys": "ok", "ncu": "absent"}


def test_joules_that_only_root_reads_name_the_command(tmp_path):
    assert system.energy(tmp_path / "none").state == "absent"
    zone = tmp_path / "intel-rapl:0"
    zone.mkdir()
    (zone / "name").write_text("package-0\n")
    (zone / "max_energy_range_uj").write_text("1000\n")
    (zone / "energy_uj").mkdir()  # cannot be read, by root neither
    row = system.energy(tmp_path)
    assert (row.state, row.fix.split(" (")[0]) == (
        "missing",
        f"as root: chmod a+r {tmp_path}/*/energy_uj",
    )
    (zone / "energy_uj").rmdir()
    (zone / "energy_uj").write_text("5\n")
    assert system.energy(tmp_path).state == "ok"


def test_little_shared_memory_and_disk(tmp_path, monkeypatch):
    usage = SimpleNamespace(free=64 * 10**6)  # what a container has unless told otherwise
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    assert "--shm-size" in system.shared_memory(tmp_path).fix
    assert "workbench runs --delete" in system.disk(tmp_path / "runs").fix
    usage.free = 10**10
    assert (system.shared_memory(tmp_path).state, system.disk(tmp_path).state) == ("ok", "ok")
    (tmp_path / "file").touch()
    assert system.disk(tmp_path / "file").found.endswith("file is no folder")
    assert system.shared_memory(tmp_path / "none").state == "missing"


def test_on_macos_it_is_the_cpu(tmp_path, monkeypatch):
    for module in (gpus, torch_side, system, doctor):
        monkeypatch.setattr(module, "IS_MAC", True)
    monkeypatch.setenv("PATH", str(tmp_path))
    rows = [*gpus.gpu_rows(None), *gpus.profiler_rows(), *torch_side.rows_of(HERE)]
    rows += [system.energy(tmp_path / "none"), system.shared_memory(tmp_path / "none")]
    told = {row.check: (row.state, row.fix) for row in rows}
    assert told["cuda"] == told["gpu"] == told["nsys"] == ("absent", None)
    assert told["shared memory"] == ("ok", None)
    assert "CPU" in next(row.found for row in rows if row.check == "cuda")


@pytest.mark.slow
def test_here_what_is_not_ok_has_a_fix(tmp_path):
    rows = doctor.examine(tmp_path / "runs").rows(named=True)
    checks = [row["check"] for row in rows]
    assert len(set(checks)) == len(checks)
    assert {"torch", "ranks", "gpu", "nvml", "nsys", "ncu", "cpu energy", "disk"} <= set(checks)
    bare = [r["check"] for r in rows if r["state"] != "ok" and not r["fix"]]
    assert [c for c in bare if c != "trace cache"] == []
    assert next(r["state"] for r in rows if r["check"] == "ranks") == "ok"
