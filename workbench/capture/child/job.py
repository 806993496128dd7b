"""One job of the child: read it from stdin, set up torch, run it, and say how it ended."""

from __future__ import annotations

import json
import os
import platform
import re
import sys
import traceback
from importlib import metadata
from pathlib import Path
from typing import Any

from . import deadman
from .clock import Clock, CudaClock, HostClock
from .events import Events
from .extras import NO_ALLOCATOR, Extras
from .ranged import RangedTracer
from .recorder import Lengths, Recorder, Tracer
from .tracing import RecordingError, Switches, TorchTracer, awaken

_OLDEST = (3, 10)
_INSTALLED = re.compile(r"([A-Za-z0-9._-]+?)-([^-]+)(?:-py[\d.]+)?\.(?:dist|egg)-info")
_PACKAGES = (
    "accelerate",
    "deepspeed",
    "flash-attn",
    "lightning",
    "numpy",
    "nvidia-cublas-cu12",
    "nvidia-cudnn-cu12",
    "nvidia-nccl-cu12",
    "pytorch-lightning",
    "torch",
    "torchvision",
    "transformer-engine",
    "transformers",
    "triton",
)


def run(events_end: str, job_end: str | None = None) -> None:
    """Run the job and exit: 0 when the trace is written, 1 with an `error` event otherwise.

    `events_end` is the number of an inherited pipe, and the job comes on stdin; or both are names
    of pipes.
    """
    control = 0 if job_end is None else os.open(job_end, os.O_RDONLY)
    job = json.loads(deadman.read_line(control))
    events_fd = int(events_end) if job_end is None else os.open(events_end, os.O_WRONLY)
    os.set_inheritable(events_fd, False)
    deadman.watch(deadman.detach_stdin() if job_end is None else control)
    events = Events(events_fd, job["rank"])
    try:
        _run(job, events)
    except RecordingError as error:
        _fail(events, str(error))
    except BaseException as error:  # noqa: BLE001 - a script may raise anything, SystemExit too
        traceback.print_exc()
        _fail(events, _last_line(error))
    events.send("done")
    sys.stdout.flush()


def _run(job: dict[str, Any], events: Events) -> None:
    events.send("setup", message="importing torch")
    if sys.version_info < _OLDEST:
        raise RecordingError(
            f"{sys.executable} is Python {platform.python_version()}, and recording needs 3.10 or "
            "later; give another one with --python."
        )
    torch = _import_torch(job)
    device, reason = choose_device(torch, job["device"], job["local_rank"], job["world"])
    events.send("setup", message=reason, facts=facts(torch, device, reason))
    if device.type == "cuda":
        torch.cuda.set_device(device)
        if job["early_profiler"]:
            awaken(torch)
    if job["script"] is None:
        from .workload import run_workload as body
    else:
        from .script import run_script as body
    body(job, torch=torch, device=device, events=events)
    if job["rank"] == 0:
        events.send("export", facts={"packages": packages(sys.path)})


def make_recorder(
    job: dict[str, Any], *, torch: Any, device: Any, events: Events, **options: Any
) -> Recorder:
    """Build the recorder of a job, with the clock of its device and the profiler."""
    folder, on_gpu = Path(job["folder"]), device.type == "cuda"
    if job["memory_history"] and not on_gpu:
        note = {"notes": [{"message": NO_ALLOCATOR}]}
        events.send("setup", message=NO_ALLOCATOR, facts=note)
    tracer: Tracer = TorchTracer(
        torch,
        active=job["steps"],
        switches=Switches(job["shapes"], job["memory"], job["stacks"]),
        target=trace_path(job),
        extras=Extras(
            torch,
            folder,
            job["rank"],
            memory_history=job["memory_history"] and on_gpu,
            execution_trace=job["execution_trace"],
        ),
    )
    if job["profiler"] is not None:
        tracer = _other_profiler(job, torch=torch, on_gpu=on_gpu)
    lengths = Lengths(job["warmup"], job["untraced"], job["steps"], detect=job["detect"])
    clock = make_clock(torch, device)
    return Recorder(lengths, clock=clock, tracer=tracer, events=events, **options)


def _other_profiler(job: dict[str, Any], *, torch: Any, on_gpu: bool) -> Tracer:
    """Return what tells the profiler around this process where the traced steps are."""
    if not on_gpu:
        raise RecordingError(
            f"{job['profiler']} records GPUs, and this training runs on the CPU; record it without "
            "--with."
        )
    # Counters are read kernel by kernel, and nobody looks at the ranges around them.
    operators = job["profiler"] == "nsys"
    return RangedTracer(torch, active=job["steps"], shapes=job["shapes"], operators=operators)


def make_clock(torch: Any, device: Any) -> Clock:
    """Return what times the steps on a device."""
    return CudaClock(torch.cuda) if device.type == "cuda" else HostClock()


def trace_path(job: dict[str, Any]) -> Path:
    """Return where a rank's trace goes."""
    return Path(job["folder"]) / f"rank{job['rank']}.trace.json.gz"


def choose_device(torch: Any, wanted: str, rank: int, world: int) -> tuple[Any, str | None]:
    """Return the torch device of this rank and, where `auto` fell back to the CPU, why."""
    if wanted == "cpu":
        return torch.device("cpu"), None
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count == 0 and wanted == "auto":
        build = torch.version.cuda or torch.version.hip
        why = "torch sees no GPU" if build else f"torch {torch.__version__} is built for CPUs only"
        return torch.device("cpu"), f"recording on the CPU, since {why}"
    index = int(wanted.partition(":")[2] or rank)
    if index >= count:
        raise RecordingError(
            f"torch sees {count} GPUs, and rank {rank} of {world} needs cuda:{index}; "
            "choose --device cpu, another GPU or fewer ranks (workbench doctor shows what is here)."
        )
    return torch.device("cuda", index), None


def _import_torch(job: dict[str, Any]) -> Any:
    try:
        import torch
        import torch.profiler
    except ImportError as error:
        raise RecordingError(
            f"torch cannot be imported by {sys.executable} ({error}); install it there, "
            "or give another Python with --python."
        ) from error
    if job["threads"]:
        torch.set_num_threads(job["threads"])
    return torch


def facts(torch: Any, device: Any, reason: str | None) -> dict[str, Any]:
    """Return what the run folder should know of the process: device, versions, threads."""
    count = torch.cuda.device_count() if device.type == "cuda" else 0
    return {
        "device": str(device),
        "device_reason": reason,
        "devices": [_device(torch.cuda.get_device_properties(i), i) for i in range(count)],
        "versions": {
            "python": platform.python_version(),
            "cuda": torch.version.cuda,
            "hip": torch.version.hip,
            **{name: found for name in _PACKAGES if (found := _version(name))},
            "torch": torch.__version__,
        },
        "threads": torch.get_num_threads(),
    }


def packages(path: list[str]) -> dict[str, str]:
    """Return the version of each installed package, as the names of their metadata folders say.

    Those are read without opening a file of each, which takes seconds where there are hundreds.
    """
    found: dict[str, str] = {}
    for place in path:
        try:
            names = sorted(entry.name for entry in os.scandir(place or "."))
        except OSError:
            continue
        for name in names:
            if told := _INSTALLED.fullmatch(name):
                found.setdefault(told[1].replace("_", "-").lower(), told[2])
    return dict(sorted(found.items()))


def _device(properties: Any, index: int) -> dict[str, Any]:
    names = ("name", "total_memory", "multi_processor_count", "major", "minor", "uuid")
    values = {n: getattr(properties, n) for n in names if hasattr(properties, n)}
    return {"index": index, **{n: v if isinstance(v, int) else str(v) for n, v in values.items()}}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _last_line(error: BaseException) -> str:
    return " ".join(traceback.format_exception_only(type(error), error)[-1].split())


def _fail(events: Events, sentence: str) -> None:
    events.send("error", message=sentence)
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit: other threads or a process group of torch may keep a failed child alive.
    os._exit(1)
