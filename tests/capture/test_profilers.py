"""Recording with another profiler: stand-ins on the PATH yield what tests wrote by hand."""

import json
import os
import re
import signal
import time
from pathlib import Path

import polars as pl
import pytest
from capture.fake import programs
from countersfile import DURATION, FFMA, raw
from nsysfile import Export

import workbench as wb
from workbench import lint
from workbench.capture import CapturePlan, profilers
from workbench.errors import UsageError
from workbench.redaction import redact

STEPS = {"warmup": 1, "untraced": 1, "steps": 2}


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Put stand-ins onto the PATH; return their folder."""
    folder = tmp_path / "bin"
    folder.mkdir()
    # Two steps of 1000 and 900 ns, in each a product of 300 ns that is launched by an operator.
    export = Export()
    for number, (begin, end) in enumerate([(1000, 2000), (2000, 2900)], start=1):
        export.nvtx(f"ProfilerStep#{number}", begin, end)
        export.nvtx(f"aten::mm, seq = {number}, op_id = {number}, sizes = [[2, 3], [3, 4]]",
                    begin + 100, begin + 300)  # fmt: skip
        export.call("cudaLaunchKernel", begin + 150, begin + 200, number)
        export.kernel("gemm", begin + 400, begin + 700, number)
    programs.install(folder, "nsys", export.write(tmp_path, "recorded.sqlite"))
    page = tmp_path / "recorded.csv"
    launches = [("gemm", {FFMA: "100", DURATION: "300"}), ("gemm", {FFMA: "120", DURATION: "310"})]
    page.write_text(raw(launches, before=["==PROF== Connected to process 9 (python3)"]))
    programs.install(folder, "ncu", page)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_CUDA", "12.8")
    return folder


def said(folder):
    return (folder / "said").read_text().splitlines()


def told(run):
    lines = (run.path / "log.txt").read_text().splitlines()
    return [x.partition(": ")[2] for x in lines if x.startswith("told the profiler")]


def names(run):
    return sorted(path.name for path in run.path.iterdir())


def until(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


def test_nsys_runs_around_the_training_and_its_export_is_the_runs_trace(start, installed):
    run = start(profiler="nsys", **STEPS)
    assert run.wait(30) == "done", run.error
    assert names(run) == ["log.txt", "rank0.nsys-rep", "rank0.sqlite", "run.json", "telemetry.csv"]
    trace = wb.open(run.path)
    (rank,) = trace.ranks
    assert rank.meta.format == "nsight-systems"
    assert rank.meta.rank == 0
    assert rank.steps.filter(pl.col("device") == 0)["step"].to_list() == [1, 2]
    assert rank.activities["dur_ns"].to_list() == [300, 300]
    assert run.manifest["plan"]["profiler"] == "nsys"
    assert [s["phase"] for s in run.manifest["steps"]].count("traced") == 2


def test_the_command_of_nsys_holds_the_workers_between_its_options_and_the_pipes(start, installed):
    run = start(profiler="nsys", **STEPS)
    assert run.wait(30) == "done", run.error
    profile, export = said(installed)
    partial = run.path.with_name(".run.partial")
    assert profile.startswith("nsys profile --trace=cuda,nvtx --sample=none ")
    assert f" --output={partial}/rank0.nsys-rep {run.plan.interpreter} " in profile
    pipes = profile.split()[-2:]
    assert [Path(name).name for name in pipes] == ["events", "job"]
    assert not Path(pipes[0]).parent.exists()
    assert export == (
        "nsys export --type sqlite --force-overwrite true "
        f"--output {partial}/.rank0.sqlite {partial}/rank0.nsys-rep"
    )


def test_the_profiler_is_on_for_the_traced_steps_alone(start, installed):
    run = start(profiler="nsys", shapes=False, **STEPS)
    assert run.wait(30) == "done", run.error
    assert told(run) == [
        "operators, shapes False", "start", "ProfilerStep#1", "pop", "ProfilerStep#2", "pop",
        "stop", "no operators",
    ]  # fmt: skip
    run = start(profiler="ncu", kernel="gemm", out=run.path.with_name("again"), **STEPS)
    assert run.wait(30) == "done", run.error
    assert told(run) == ["start", "ProfilerStep#1", "pop", "ProfilerStep#2", "pop", "stop"]


def test_ncu_counts_the_kernels_that_it_is_given(start, installed):
    run = start(profiler="ncu", kernel="gemm|conv", **STEPS)
    assert run.wait(30) == "done", run.error
    assert names(run) == ["log.txt", "rank0.ncu.csv", "run.json", "telemetry.csv"]
    (line,) = said(installed)
    assert line.startswith("ncu --set=full --csv --page=raw --print-units=base ")
    assert " --kernel-name=regex:gemm|conv " in line
    (rank,) = wb.open(run.path).ranks
    counted = rank.kernel_counters.filter(pl.col("name").cast(pl.String) == FFMA)
    assert counted["value"].to_list() == [100.0, 120.0]


def test_each_rank_has_a_program_of_its_own(start, installed):
    run = start(profiler="nsys", ranks=2, **STEPS)
    assert run.wait(30) == "done", run.error
    assert {"rank0.sqlite", "rank1.sqlite"} <= set(names(run))
    assert [rank.meta.rank for rank in wb.open(run.path).ranks] == [0, 1]


def test_a_folder_with_a_percent_sign_is_no_placeholder(start, installed, tmp_path):
    run = start(profiler="nsys", out=tmp_path / "50%h", **STEPS)
    assert run.wait(30) == "done", run.error
    assert "/.50%%h.partial/rank0.nsys-rep " in said(installed)[0]
    assert "rank0.sqlite" in names(run)


@pytest.mark.parametrize(
    ("variable", "words"),
    [
        ("FAKE_NO_REPORT", "nsys wrote no report of rank 0; it said: "),
        ("FAKE_NO_REPORT", "No reports were generated"),
        ("FAKE_EXPORT_ERROR", "could not convert rank0.nsys-rep; it said: Importer error"),
        ("FAKE_NO_KERNEL", "no kernel whose name matches 'x'"),
        ("FAKE_NO_KERNEL", "No kernels were profiled."),
    ],
)
def test_what_a_profiler_fails_at_is_one_sentence(start, installed, monkeypatch, variable, words):
    monkeypatch.setenv(variable, "1")
    by_ncu = variable == "FAKE_NO_KERNEL"
    options = {"profiler": "ncu", "kernel": "x"} if by_ncu else {"profiler": "nsys"}
    run = start(**options, **STEPS)
    assert run.wait(30) == "failed"
    assert words in run.error
    assert not [name for name in names(run) if name.startswith(".")]


def test_a_run_is_cancelled_while_its_report_is_converted(start, installed, monkeypatch):
    monkeypatch.setenv("FAKE_EXPORT_S", "600")
    run = start(profiler="nsys", **STEPS)
    assert until((installed / "exporting").exists)
    run.cancel()
    assert run.wait(10) == "cancelled"
    assert "rank0.nsys-rep" in names(run)
    assert "rank0.sqlite" not in names(run)


def test_a_training_that_raises_under_a_profiler_says_so(start, installed):
    run = start("raise", profiler="nsys", **{**STEPS, "untraced": 1000})
    assert run.wait(30) == "failed"
    assert run.error == "ValueError: loss is nan"


def test_a_cancelled_profiler_leaves_no_training_behind(start, installed, gone):
    run = start("helper", profiler="nsys", **{**STEPS, "untraced": 100_000})
    assert until(lambda: run.progress.phase == "untraced")
    helper = int(next(x for x in run.log_tail().splitlines() if "helper" in x).split()[1])
    (worker,) = [int(p) for p in re.findall(r"\d+", ppid_of(helper))]
    os.kill(run.pids[0], signal.SIGKILL)  # the profiler's program alone
    assert run.wait(20) == "failed"
    assert until(lambda: gone(worker) and gone(helper))


def ppid_of(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]


def test_a_training_on_the_cpu_is_told(start, installed, monkeypatch):
    monkeypatch.delenv("FAKE_CUDA")
    run = start(profiler="nsys", **STEPS)
    assert run.wait(30) == "failed"
    assert "nsys records GPUs, and this training runs on the CPU" in run.error


def test_what_the_folder_lacks_is_told_of_such_a_run_too(start, installed):
    run = start(profiler="nsys", **STEPS)
    assert run.wait(30) == "done", run.error
    assert "enough steps" in lint.lint(run.path)["aspect"].to_list()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"profiler": "ncu"}, "--with ncu KERNEL"),
        ({"profiler": "nsys", "kernel": "gemm"}, "only ncu is given any"),
        ({"profiler": "nsyz"}, "did you mean nsys"),
        ({"profiler": "nsys", "device": "cpu"}, "nsys and device=cpu exclude each other"),
        ({"profiler": "nsys", "stacks": True}, "stacks=True belongs to torch's profiler"),
        ({"profiler": "ncu", "kernel": "k", "ranks": 2}, "ncu and ranks=2 exclude each other"),
    ],
)
def test_what_excludes_each_other_is_named(installed, options, words):
    with pytest.raises(UsageError) as caught:
        CapturePlan(workload="gpt", **options)
    assert words in str(caught.value)


@pytest.mark.parametrize("options", [{"profiler": "nsys"}, {"profiler": "ncu", "kernel": "k"}])
def test_a_profiler_that_is_not_installed_is_one_sentence(monkeypatch, tmp_path, options):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError) as caught:
        CapturePlan(workload="gpt", **options)
    name = options["profiler"]
    assert str(caught.value).startswith(f"{name} is not on the PATH: --with {name} needs Nsight ")


def test_graphs_start_no_profiler_of_torch_beside_another(installed, tmp_path):
    from workbench.capture.launch import job

    plan = CapturePlan(workload="gpt", profiler="nsys", overrides={"cuda_graphs": True},
                       device="cuda")  # fmt: skip
    assert job(plan, tmp_path, 0)["early_profiler"] is False
    assert job(plan, tmp_path, 0)["profiler"] == "nsys"
    assert json.dumps(plan.as_dict())
    assert profilers.around(CapturePlan(workload="gpt"), tmp_path, 0) == []


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_copy_without_names_tells_the_same_of_such_a_run(start, installed, tmp_path, ranks):
    run = start(profiler="nsys", ranks=ranks, **STEPS)
    assert run.wait(30) == "done", run.error
    made = redact(run.path, tmp_path / "copy", key=tmp_path / "key.json")
    assert made.is_same
    assert [rank.meta.rank for rank in wb.open(tmp_path / "copy").ranks] == list(range(ranks))
