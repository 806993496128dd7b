"""The verbs around recording, as a user types them; training runs on the fake torch."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from workbench import cli
from workbench.capture import folder

FAKE = Path(__file__).parent / "capture" / "fake"
LOOP = str(FAKE / "loop.py")
SHORT = ["--warmup", "1", "--untraced", "1", "--steps", "2"]


@pytest.fixture
def workbench(tmp_path, monkeypatch, capsys):
    """Run the command line in a folder of its own; return exit code, output and errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(FAKE))

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["workbench", *map(str, words)])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        printed = capsys.readouterr()
        return caught.value.code or 0, printed.out, printed.err

    return run


def child(*words, cwd):
    env = {**os.environ, "PYTHONPATH": str(FAKE)}
    command = [sys.executable, "-m", "workbench.cli", *words]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=cwd, env=env, text=True, **pipes)


def test_a_script_is_recorded_with_its_own_arguments(workbench, tmp_path):
    code, out, err = workbench(
        "record", "--script", LOOP, *SHORT, "-o", "R", "--", "999", "--steps", "7"
    )
    assert code == 0, err
    assert out == f"{tmp_path / 'R'}\n"
    lines = [line.split() for line in err.splitlines()]
    assert ["traced", "2/2"] in [line[:2] for line in lines]
    assert [line[3] for line in lines if line[:2] == ["traced", "2/2"]] == ["ms"]
    assert folder.read(tmp_path / "R").manifest["plan"]["arguments"] == ["999", "--steps", "7"]


def test_a_recording_ends_with_what_it_lacks(workbench, tmp_path):
    code, out, err = workbench("record", "--script", LOOP, *SHORT, "-o", "R", "--", "999")
    assert (code, out) == (0, f"{tmp_path / 'R'}\n")
    lines = err.splitlines()
    head = next(i for i, line in enumerate(lines) if "things to know" in line)
    assert f"workbench show {tmp_path / 'R'} trust" in lines[head]
    (few,) = (line for line in lines[head:] if line.startswith("  enough steps: "))
    assert few.endswith("(--untraced 5 --steps 5)")


def test_a_failed_recording_is_one_sentence_and_exit_2(workbench, tmp_path):
    code, out, err = workbench("record", "--script", LOOP, *SHORT, "-o", "R", "--", "9", "raise")
    assert (code, out) == (2, "")
    log = tmp_path / "R" / "log.txt"
    assert err.splitlines()[-1] == f"workbench: ValueError: loss is nan [log: {log}]"
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["record"], "either a workload (gpt, "),
        (["record", "gtp"], "did you mean gpt"),
        (["record", "gpt", "extra"], "--set KEY=VALUE"),
        (["record", "gpt", "--set", "layer=2"], "did you mean layers?"),
        (["record", "gpt", "--set", "layers"], "not of the form KEY=VALUE"),
        (["record", "gpt", "--set", "heads=3"], "hidden=128 is not divisible by heads=3"),
        (["record", "gpt", "--steps", "many"], "--steps"),
        (["record", "gpt", "--stepz", "3"], "--stepz"),
        (["record", "gpt", "--python", "/nowhere/python"], "is not a program"),
        (["record", "gpt", "--emit", "pbs"], "--emit pbs is not known"),
        (["record", "gpt", "--nnodes", "2"], "--rdzv-endpoint HOST:PORT"),
        (["record", "gpt", "--with", "nsys", "--device", "cpu"], "exclude each other"),
        (["record", "--script", "/nowhere.py"], "no script at /nowhere.py"),
        (["nonsense"], "nonsense"),
        (["workloads", "gtp"], "did you mean gpt"),
        (["workloads", "--json", "--csv"], "exclude each other"),
        (["workloads", "-o", "x.txt"], ".parquet"),
        (["runs", "--delete", "../x"], "no runs in runs"),
        (["runs", "--rename", "a", "b", "--delete", "c"], "exclude each other"),
    ],
)
def test_a_wrong_command_is_one_sentence_and_exit_2(workbench, words, sentence):
    code, out, err = workbench(*words)
    assert (code, out) == (2, "")
    assert err.startswith("workbench: ")
    assert err.count("\n") == 1
    assert sentence in err


STAND_INS = {
    "scontrol": 'test "$*" = "show hostnames node[3-4]" && printf "node3\\nnode4\\n"',
    "srun": 'shift; SLURM_NODEID=1 exec "$@"',
    "python": 'printf "%s\\n" "$@"',
}


def test_a_slurm_script_starts_this_command_on_each_node(workbench, tmp_path, monkeypatch):
    bin_ = tmp_path / "bin it"
    bin_.mkdir()
    for name, text in STAND_INS.items():
        (bin_ / name).write_text(f"#!/bin/bash\n{text}\n")
        (bin_ / name).chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(bin_ / "python"))
    words = ["--nnodes", "2", "--ranks", "8", "--no-shapes", "--stacks", "--steps", "7"]
    code, out, err = workbench(
        "record", "--script", LOOP, *words, "--emit", "slurm", "--", "9", "it's $HOME"
    )
    assert code == 0, err
    assert "#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node=8\n" in out
    subprocess.run(["bash", "-n"], input=out, text=True, check=True)
    job = {"SLURM_JOB_NODELIST": "node[3-4]", "SLURM_JOB_ID": "2017", "SLURM_NNODES": "2"}
    env = os.environ | job | {"PATH": f"{bin_}:{os.environ['PATH']}"}
    ran = subprocess.run(["bash"], input=out, text=True, capture_output=True, check=True, env=env)
    assert ran.stdout.splitlines() == [
        "-m", "workbench", "record", "--node-rank", "1", "--script", LOOP, "--ranks", "8",
        "--steps", "7", "--no-shapes", "--stacks", "--nnodes", "2",
        "--rdzv-endpoint", "node3:29517", "-o", f"{tmp_path}/runs/loop-2017", "--", "9",
        "it's $HOME",
    ]  # fmt: skip


def test_a_slurm_script_of_a_workload_on_one_node(workbench):
    words = ["--set", "layers=3", "--precision", "bf16", "--device", "cpu", "-o", "my runs/x"]
    code, out, err = workbench("record", "gpt", *words, "--emit", "slurm")
    assert code == 0, err
    subprocess.run(["bash", "-n"], input=out, text=True, check=True)
    assert "gpus" not in out
    assert "rdzv" not in out
    assert " --set layers=3 " in out
    assert "/my runs/x'" in out


@pytest.mark.parametrize(
    "words",
    [
        ["--with", "ncu", "gemm.*f16", "gpt"],
        ["gpt", "--with=ncu", "gemm.*f16"],
        ["gpt", "--with", "ncu:gemm.*f16"],
    ],
)
def test_a_kernel_follows_ncu_in_a_word_of_its_own(workbench, monkeypatch, words):
    plans = []
    monkeypatch.setattr("workbench.capture.profilers.program", str)
    monkeypatch.setattr("workbench.recording.follow", plans.append)
    assert workbench("record", *words)[0] == 0
    (plan,) = plans
    assert (plan.workload, plan.profiler, plan.kernel) == ("gpt", "ncu", "gemm.*f16")


def test_what_belongs_to_a_script_is_no_kernel(workbench, monkeypatch):
    plans = []
    monkeypatch.setattr("workbench.capture.profilers.program", str)
    monkeypatch.setattr("workbench.recording.follow", plans.append)
    assert workbench("record", "--script", LOOP, "--", "--with", "ncu", "x")[0] == 0
    assert plans[0].arguments == ("--with", "ncu", "x")
    words = ["record", "--script", LOOP, "--with", "ncu", "--", "x"]
    assert "--with ncu KERNEL" in workbench(*words)[2]


def make(path, **content):
    path.mkdir(parents=True)
    (path / "run.json").write_text(json.dumps({"schema_version": 1, **content}))


def test_runs_are_listed_renamed_and_deleted(workbench, tmp_path):
    steps = [
        {"rank": 0, "index": i, "phase": phase, "dur_ns": time}
        for i, (phase, time) in enumerate([("untraced", 100), ("traced", 120), ("traced", 130)])
    ]
    make(tmp_path / "runs" / "a", status="done", started="1", steps=steps, workload="gpt")
    make(tmp_path / "runs" / ".b.partial", status="running", started="2", plan="odd", steps=3)
    code, out, _ = workbench("runs", "--json")
    rows = json.loads(out)["rows"]
    assert code == 0
    assert [(r["name"], r["status"], r["step_ns"]) for r in rows] == [
        ("a", "done", 125.0),
        ("b", "interrupted", None),
    ]
    assert rows[0]["overhead_pct"] == pytest.approx(25.0)
    assert workbench("runs", "--rename", "a", "c")[:2] == (0, f"{Path('runs') / 'c'}\n")
    assert workbench("runs", "--delete", "b")[0] == 0
    assert [entry.name for entry in (tmp_path / "runs").iterdir()] == ["c"]


def test_workloads_lists_presets_and_parameters(workbench):
    rows = json.loads(workbench("workloads", "--json")[1])["rows"]
    assert [(row["workload"], row["preset"]) for row in rows][:3] == [
        ("gpt", "tiny"),
        ("gpt", "small"),
        ("gpt", "full"),
    ]
    rows = {
        row["parameter"]: row
        for row in json.loads(workbench("workloads", "gpt", "--json")[1])["rows"]
    }
    assert (rows["layers"]["full"], rows["layers"]["minimum"]) == ("32", "1")
    assert rows["precision"]["choices"] == "fp32, tf32, bf16, fp16, bf16-true"


def test_doctor_names_the_fix_of_what_is_missing(workbench, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(FAKE / "no_torch"))
    rows = {row["check"]: row for row in json.loads(workbench("doctor", "--json")[1])["rows"]}
    assert rows["python"]["state"] == "ok"
    assert rows["torch"]["state"] == "missing"
    assert "No module named 'torch'" in rows["torch"]["found"]
    assert "pip install torch" in rows["torch"]["fix"]
    assert {"gpu", "gpu counters", "nsys", "ncu", "chromium", "disk"} <= set(rows)


def test_version_and_help(workbench):
    from workbench.version import __version__

    assert workbench("--version")[1] == f"workbench {__version__}\n"
    code, out, _ = workbench()
    assert code == 0
    assert all(verb in out for verb in ("record", "runs", "doctor", "workloads"))


def test_version_loads_nothing_heavy():
    code = (
        "import sys; sys.argv = ['workbench', '--version']\n"
        "from workbench import cli\n"
        "try: cli.main()\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'polars', 'psutil', 'numpy', 'rich'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_cancels_the_run_and_exits_130(tmp_path, gone_after, number):
    words = ["record", "--script", LOOP, "--untraced", "100000", "-o", "R", "--", "100000"]
    process = child(*words, cwd=tmp_path)
    while not process.stderr.readline().startswith("untraced"):
        pass
    pid = folder.read(tmp_path / ".R.partial").manifest["processes"][0]["pid"]
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert out == ""
    assert "cancelled in phase untraced" in err
    assert "Traceback" not in err
    assert folder.read(tmp_path / "R").status == "cancelled"
    assert gone_after(pid)


@pytest.fixture
def gone_after():
    def check(pid):
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            return True

    return check


def test_a_reader_that_goes_away_is_no_error(tmp_path):
    process = child("workloads", "gpt", cwd=tmp_path)
    process.stdout.close()
    assert process.stderr.read().count("Traceback") == 0
    assert process.wait(30) == 0
    process.stderr.close()
