"""Everything worth knowing from a GPU node, in ten minutes and one folder.

    python scripts/gpu_check.py --out FOLDER [--device cuda|cpu] [--minutes 9.5] [--kit FILE]

Runs where torch and numpy are and nothing can be fetched: what else is needed comes from the kit
that `make gpu-kit` prepared. Parts, each with a limit of its own, so that none that fails or hangs
stops the others: what the machine is, the tests marked `gpu`, measured roofs, and recordings of
small workloads with what the analyses say of them. Leaves `index.md` for people, `index.json` for
programs, each part's output as text, and the run folders in `runs-N.tar`, the largest traces left
out first where all would not fit. `--device cpu` goes through all of it without a GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CLI = "import sys; from workbench.cli import main; sys.exit(main())"
MOST_BYTES, ARCHIVE_BYTES = 60_000_000, 15_000_000
ARCHIVES = 4
TAIL = 4_000
"""Characters of a part's output that stand in the index."""
GRACE_S = 5
SHOWN = ("summary", "breakdown", "trust", "mfu", "energy")
"""What is asked of each recording."""
BF16 = ("--set", "precision=bf16")
RECORDINGS = {
    "llama31_8b": ("llama31_8b", *BF16),
    "llama31_8b-graphs": ("llama31_8b", *BF16, "--set", "cuda_graphs=true"),
    "llama31_8b-compile": ("llama31_8b", *BF16, "--set", "compile=default"),
    "resnet50": ("resnet50", *BF16, "--set", "channels_last=true"),
    "gpt_oss_20b": ("gpt_oss_20b", *BF16),
    "dlrm_dcnv2": ("dlrm_dcnv2",),
    "bert_large": ("bert_large", *BF16),
    "unet3d": ("unet3d", *BF16),
}
"""Folder of each run, and its workload with options; the first are the most wanted."""


@dataclass
class Part:
    """One thing to run: its command, its limit, and how it ended."""

    name: str
    command: list[str]
    limit_s: float
    asks: str | None = None
    """The run folder that it looks at."""
    status: str = "not run: the time was up"
    seconds: float = 0.0
    tail: str = field(default="", repr=False)


def parts(out: Path, device: str) -> list[Part]:
    """Return what to run, in this order."""
    cli = [sys.executable, "-c", CLI]
    tests = ["-m", "pytest", "-q", "-m", "gpu", str(ROOT / "tests" / "gpu")]
    found = [
        Part("driver", ["nvidia-smi"], 20),
        Part("doctor", [*cli, "doctor"], 60),
        Part("tests", [sys.executable, *tests], 150),
        Part("ceilings", [*cli, "ceilings", "--device", device, "--refresh", "--json"], 90),
    ]
    preset = "tiny" if device == "cpu" else "small"
    for name, (workload, *given) in RECORDINGS.items():
        if device == "cpu" and "cuda_graphs=true" in given:
            continue
        # on a processor a step in bf16 takes seconds
        options = [x for pair in _pairs(given) if device != "cpu" or pair != BF16 for x in pair]
        run = str(out / "runs" / name)
        asked = ["--preset", preset, "--device", device, "--steps", "3", "--untraced", "5"]
        recorded = [*cli, "record", workload, *asked, *options, "--timeout", "75", "-o", run]
        found.append(Part(f"record {name}", recorded, 90))
        found += [
            Part(f"{shown} {name}", [*cli, "show", run, shown, "--json"], 30, name)
            for shown in SHOWN
        ]
    return found


def _pairs(options: list[str]) -> list[tuple[str, str]]:
    return list(zip(options[::2], options[1::2], strict=True))


def run(part: Part, deadline: float, out: Path, env: dict[str, str]) -> None:
    """Run one part to its end, its limit or the deadline, whichever comes first."""
    limit = min(part.limit_s, deadline - time.monotonic())
    if limit <= GRACE_S:
        return
    if part.asks and not (out / "runs" / part.asks).is_dir():
        part.status = "not run: its recording failed"
        return
    log = out / f"{part.name.replace(' ', '-')}.txt"
    begin = time.monotonic()
    with log.open("wb") as file:
        try:
            process = subprocess.Popen(
                part.command, stdout=file, stderr=subprocess.STDOUT, cwd=ROOT, env=env,
                stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            part.status = f"could not start: {error.strerror}"
            return
        part.status = _wait(process, limit)
    part.seconds = round(time.monotonic() - begin, 1)
    part.tail = log.read_bytes()[-TAIL:].decode("utf-8", "replace")


def _wait(process: subprocess.Popen[bytes], limit: float) -> str:
    try:
        code = process.wait(limit)
    except subprocess.TimeoutExpired:
        for number in (signal.SIGTERM, signal.SIGKILL):
            os.killpg(process.pid, number)
            try:
                process.wait(GRACE_S)
                break
            except subprocess.TimeoutExpired:
                continue
        return f"ended after its limit of {limit:.0f} s"
    return "done" if code == 0 else f"exit {code}"


def prepare(kit: Path, place: Path) -> dict[str, str]:
    """Unpack the kit; return the environment in which parts find it, before what the node has."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    if kit.is_file():
        with tarfile.open(kit) as archive:
            archive.extractall(place, filter="data")
        paths.append(str(place))
    own = {"PYTHONPATH": os.pathsep.join(p for p in paths if p), "PYTHONUNBUFFERED": "1"}
    return dict(os.environ) | own | {"WORKBENCH_CACHE": str(place / "cache")}


def pack(out: Path, most: int = ARCHIVE_BYTES * ARCHIVES) -> list[str]:
    """Put the run folders into archives and remove them; return what was left out."""
    folder = out / "runs"
    files = sorted((f for f in folder.rglob("*") if f.is_file()), key=lambda f: f.stat().st_size)
    left_out, total = [], sum(f.stat().st_size for f in files)
    while files and (total > most or files[-1].stat().st_size > ARCHIVE_BYTES):
        largest = files.pop()
        total -= largest.stat().st_size
        left_out.append(f"{largest.relative_to(folder)} ({largest.stat().st_size / 1e6:.0f} MB)")
    groups: list[tuple[int, list[Path]]] = []
    for file in reversed(files):
        size = file.stat().st_size
        fits = next((g for g, (held, _) in enumerate(groups) if held + size <= ARCHIVE_BYTES), None)
        if fits is None:
            groups.append((size, [file]))
        else:
            groups[fits] = (groups[fits][0] + size, [*groups[fits][1], file])
    for number, (_, group) in enumerate(groups, 1):
        with tarfile.open(out / f"runs-{number}.tar", "w") as archive:
            for file in group:
                archive.add(file, str(file.relative_to(out)))
    shutil.rmtree(folder, ignore_errors=True)
    return left_out


def write_index(out: Path, done: list[Part], left_out: list[str]) -> None:
    """Write index.json and index.md: what ran, how long, how it ended."""
    known = {"parts": [asdict(p) for p in done], "left_out": left_out}
    (out / "index.json").write_text(json.dumps(known, indent=1), "utf-8")
    lines = ["| part | ended | seconds |", "| --- | --- | ---: |"]
    lines += [f"| {p.name} | {p.status} | {p.seconds} |" for p in done]
    lines += ["", *(f"Left out: {name}." for name in left_out)]
    for part in done:
        if part.status != "done":
            lines += ["", f"## {part.name}: {part.status}", "", "```", part.tail.strip(), "```"]
    (out / "index.md").write_text("\n".join(lines) + "\n", "utf-8")


def main() -> None:
    """Run all parts and leave the folder."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--minutes", type=float, default=9.5)
    parser.add_argument("--kit", type=Path, default=ROOT / ".kit" / "site.tar.xz")
    options = parser.parse_args()
    deadline = time.monotonic() + 60 * options.minutes
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        env = prepare(options.kit, Path(name))
        wanted = parts(out, options.device)
        for part in wanted:
            run(part, deadline - 2 * GRACE_S, out, env)
            print(f"{part.name}: {part.status}, {part.seconds} s", flush=True)
            write_index(out, wanted, [])
    with tarfile.open(out / "logs.tar.gz", "w:gz") as logs:
        for log in sorted(out.glob("*.txt")):
            logs.add(log, f"logs/{log.name}")
            log.unlink()
    write_index(out, wanted, pack(out))


if __name__ == "__main__":
    main()
