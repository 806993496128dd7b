"""`CapturePlan`: everything that defines one recording, frozen, checked and printable."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench import workloads
from workbench.capture import profilers
from workbench.errors import UsageError, unknown_name

if TYPE_CHECKING:
    from workbench.workloads import Value

_DEVICE = re.compile(r"auto|cpu|cuda(:\d+)?")
_ENDPOINT = re.compile(r"[^\s:/]+:\d{1,5}|\[[0-9A-Fa-f:]+\]:\d{1,5}")
_PATHS = ("script", "python", "out", "runs_dir")
_MOST_RANKS = 64
CELL = "cell.py"
"""The file of a run folder with the text of the recorded cell."""


@dataclass(frozen=True, kw_only=True)
class CapturePlan:
    """One recording: a workload or a script, where it runs, how long, and what is recorded.

    Paths may be given as texts. Every wrong field, and every pair that excludes each other, raises
    UsageError at once.
    """

    workload: str | None = None
    preset: str = "tiny"
    overrides: Mapping[str, Value] | tuple[tuple[str, Value], ...] = ()
    """Spec fields that differ from the preset; stored as sorted pairs."""
    precision: str | None = None
    """Shorthand for the override `precision`."""
    script: Path | None = None
    """The user's own script, instead of a workload."""
    arguments: tuple[str, ...] = ()
    """What follows `--` for the script."""
    function: str | None = None
    """A function of the script that is one step, called again and again; None runs the script."""
    code: str | None = None
    """The text of a script, as of a notebook's cell, instead of a file; kept as `cell.py`."""
    label: str | None = None
    """What the run folder's name begins with; None: what is recorded."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N; auto is the GPU when torch sees one."""
    ranks: int = 1
    """Processes on this machine, over NCCL on GPUs, over gloo on the CPU."""
    nnodes: int = 1
    """Machines; each records `ranks` of its own into one folder."""
    node_rank: int = 0
    """The number of this machine; 0 makes the folder and closes it."""
    rdzv_endpoint: str | None = None
    """HOST:PORT where the ranks of all machines meet: a free port of machine 0."""
    warmup: int = 10
    """Most warm-up steps; fewer when three steps in a row lie within 10 %."""
    untraced: int = 5
    """Steps timed without the profiler, to know its overhead."""
    steps: int = 5
    """Traced steps."""
    shapes: bool = True
    memory: bool = True
    stacks: bool = False
    memory_history: bool = False
    """Keep the history of the GPU's allocator, as rank0.memory.json."""
    execution_trace: bool = False
    """Keep torch's execution trace, operators and what they depend on, as rank0.et.json."""
    early_profiler: bool = False
    """Start the profiler once before the training begins, since kernels of CUDA graphs that are
    captured before its first start are never recorded; workloads that replay graphs always do."""
    profiler: str | None = None
    """nsys or ncu: record with that instead of torch's profiler, where it is installed."""
    kernel: str | None = None
    """With ncu: a regular expression; the kernels whose name it matches are counted."""
    python: Path | None = None
    """The interpreter of the training environment; None is this one."""
    timeout_s: float | None = None
    out: Path | None = None
    """The run folder itself; None makes a new one inside `runs_dir`."""
    runs_dir: Path = Path("runs")

    def __post_init__(self) -> None:
        """Check every field, and the workload's spec with its overrides."""
        items = self.overrides.items() if isinstance(self.overrides, Mapping) else self.overrides
        object.__setattr__(self, "overrides", tuple(sorted(items)))
        for name in _PATHS:
            if isinstance(value := getattr(self, name), str):
                object.__setattr__(self, name, Path(value))
        self._check_numbers()
        self._check_subject()
        self._check_device()
        self._check_profiler()
        _ = self.interpreter
        if (spec := self.spec) is not None:
            spec.check_run(device=self.device, ranks=self.world)

    @property
    def world(self) -> int:
        """The number of ranks on all machines."""
        return self.ranks * self.nnodes

    @property
    def endpoint(self) -> tuple[str, int] | None:
        """Host and port where the ranks of several machines meet."""
        if self.rdzv_endpoint is None:
            return None
        host, _, port = self.rdzv_endpoint.rpartition(":")
        return host, int(port)

    @property
    def name(self) -> str:
        """The label, or the workload, or the script's file name without suffix."""
        if self.label is None and self.workload is not None:
            return self.workload
        stem = self.label or Path(self.script or CELL).stem
        return re.sub(r"[^A-Za-z0-9_-]+", "-", stem).strip("-") or "script"

    @property
    def spec(self) -> Any:
        """The workload's resolved spec; None for a script or a cell."""
        if self.workload is None:
            return None
        overrides = dict(self.overrides)
        if self.precision is not None:
            if overrides.get("precision", self.precision) != self.precision:
                raise UsageError(
                    f"precision={self.precision} and --set precision={overrides['precision']} "
                    "exclude each other; keep one of them."
                )
            overrides["precision"] = self.precision
        return workloads.get(self.workload).resolve(self.preset, overrides)

    @property
    def interpreter(self) -> Path:
        """The Python that runs the training; links are kept, since a venv is one."""
        if self.python is None:
            return Path(sys.executable)
        found = shutil.which(self.python.expanduser())
        if found is None:
            raise UsageError(
                f"{self.python} is not a program; give the python of the training environment, "
                "as in --python ~/envs/train/bin/python."
            )
        return Path(found).absolute()

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as plain values for run.json."""
        code = None if self.code is None else CELL
        values = asdict(self) | {"overrides": dict(self.overrides), "code": code}
        return {key: str(v) if isinstance(v, Path) else v for key, v in values.items()}

    def _check_numbers(self) -> None:
        least = {"ranks": 1, "nnodes": 1, "node_rank": 0, "warmup": 0, "untraced": 0, "steps": 1}
        for name, minimum in least.items():
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
                raise UsageError(f"{name}={value!r} is not a whole number of at least {minimum}.")
        if self.ranks > _MOST_RANKS:
            raise UsageError(f"ranks={self.ranks} is above {_MOST_RANKS}, the most on one machine.")
        if self.node_rank >= self.nnodes:
            raise UsageError(
                f"node_rank={self.node_rank} and nnodes={self.nnodes} exclude each other; "
                f"machines are numbered from 0 to {self.nnodes - 1}."
            )
        if self.rdzv_endpoint is not None and not _ENDPOINT.fullmatch(self.rdzv_endpoint):
            raise UsageError(
                f"rdzv_endpoint={self.rdzv_endpoint!r} is not HOST:PORT, as in node0:29500."
            )
        if self.timeout_s is not None and not self.timeout_s > 0:
            raise UsageError(f"timeout_s={self.timeout_s!r} is not a time above zero.")

    def _check_subject(self) -> None:
        subjects = {"workload": self.workload, "script": self.script, "code": self.code}
        given = [name for name, value in subjects.items() if value is not None]
        if len(given) != 1:
            known = ", ".join(workloads.names())
            raise UsageError(f"Name either a workload ({known}) or a script, and not both.")
        for name in ("arguments", "function"):
            if getattr(self, name) and self.script is None:
                raise UsageError(f"{name} belongs to a script, and {given[0]} is set.")
        if self.workload is None and (self.overrides or self.precision is not None):
            raise UsageError(
                f"overrides and precision belong to a workload, and {given[0]} is set; "
                "pass the script's own arguments after --."
            )
        if self.script is not None and not self.script.expanduser().is_file():
            raise UsageError(f"There is no script at {self.script}.")

    def _check_profiler(self) -> None:
        if (self.kernel is None) == (self.profiler == "ncu"):
            raise UsageError(
                "ncu counts the kernels that it is given, and only ncu is given any: "
                "--with ncu KERNEL, as in --with ncu gemm (a regular expression)."
            )
        if self.profiler is None:
            return
        if self.profiler not in profilers.PRODUCTS:
            raise unknown_name("profiler", self.profiler, profilers.PRODUCTS)
        if self.device == "cpu":
            raise UsageError(
                f"{self.profiler} and device=cpu exclude each other: it records GPUs; "
                "leave out --with to record the CPU."
            )
        for name in ("stacks", "memory_history", "execution_trace", "early_profiler"):
            if getattr(self, name):
                raise UsageError(
                    f"{name}=True belongs to torch's profiler, and {self.profiler} takes its "
                    "place; leave out one of them."
                )
        if self.profiler == "ncu" and self.world > 1:
            raise UsageError(
                f"ncu and ranks={self.world} exclude each other: it runs each kernel several times "
                "by itself, and a collective would wait for the other ranks for ever."
            )
        profilers.program(self.profiler)

    def _check_device(self) -> None:
        if not _DEVICE.fullmatch(self.device):
            raise UsageError(f"device={self.device!r} is not auto, cpu, cuda or cuda:N.")
        if self.memory_history and self.device == "cpu":
            raise UsageError(
                "memory_history=True and device=cpu exclude each other: the history is kept by the "
                "allocator of GPUs; memory=True records allocations on the CPU."
            )
        if ":" in self.device and self.world > 1:
            raise UsageError(
                f"device={self.device} and ranks={self.world} exclude each other; "
                "with device=cuda each rank takes the GPU of its number."
            )
