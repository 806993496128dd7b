"""The profiler, and its trace on disk: exported inside `on_trace_ready`, compressed, checked."""

from __future__ import annotations

import errno
import gzip
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .extras import Extras

_STEP = b'"ProfilerStep#'
_CHUNK = 1 << 20
_LEVEL = 3  # about as small as level 9 on these files, and several times faster


class RecordingError(Exception):
    """A recording that cannot go on; the message is the sentence for the user."""


@dataclass(frozen=True)
class Switches:
    """What the profiler records besides operators and kernels."""

    shapes: bool
    memory: bool
    stacks: bool


class TorchTracer:
    """`torch.profiler` over one warm-up step and `active` recorded steps."""

    def __init__(
        self, torch: Any, *, active: int, switches: Switches, target: Path, extras: Extras
    ) -> None:
        self.torch, self.active, self.switches, self.target = torch, active, switches, target
        self.extras = extras
        self.number = 0
        self.running = self.exported = False

    def start(self) -> None:
        """Begin with one step of the profiler's own warm-up."""
        self.running = True
        profiler = self.torch.profiler
        self.profile = profiler.profile(
            activities=profiler.supported_activities(),
            schedule=profiler.schedule(wait=0, warmup=1, active=self.active, repeat=1),
            on_trace_ready=self._export,
            record_shapes=self.switches.shapes,
            profile_memory=self.switches.memory,
            with_stack=self.switches.stacks,
            **self.extras.begin(),
        )
        self.profile.start()

    def advance(self) -> int | None:
        """Go on to the next step; return its number in the trace, None once exported."""
        self.profile.step()
        if self.exported:
            self.profile.stop()
            return None
        self.number += 1
        return self.number

    def abandon(self) -> None:
        """End the profiler, if it runs, and leave no trace."""
        if self.running and not self.exported:
            self.profile.on_trace_ready = None
            self.profile.stop()

    def _export(self, profile: Any) -> None:
        self.extras.end()
        export(profile, self.target)
        self.extras.write()
        self.exported = True


def awaken(torch: Any) -> None:
    """Start and stop the profiler, so that graphs captured from now on are known to it."""
    with torch.profiler.profile(activities=torch.profiler.supported_activities()):
        torch.cuda.synchronize()


def export(profile: Any, target: Path) -> None:
    """Write the trace that a profiler has just ended, compressed; raise where the disk is full."""
    raw = target.with_name(f".{target.name.removesuffix('.gz')}")
    try:
        profile.export_chrome_trace(str(raw))
        compress(raw, target)
    except OSError as error:
        # Where it has no room, Kineto leaves no file and raises nothing.
        free = shutil.disk_usage(target.parent).free
        why = f"{free / 1e6:,.0f} MB are free" if error.errno == errno.ENOENT else error.strerror
        raise RecordingError(
            f"The trace can't be written into {target.parent}: {why}; free some space there, "
            "record fewer steps, or into another folder (--runs-dir)."
        ) from None


def compress(raw: Path, target: Path) -> None:
    """Gzip a trace file and remove it; without a step in it, raise and leave no target."""
    packed = target.with_name(f".{target.name}.part")
    found, tail = False, b""
    with raw.open("rb") as source, gzip.open(packed, "wb", compresslevel=_LEVEL) as sink:
        while chunk := source.read(_CHUNK):
            found = found or _STEP in tail + chunk
            tail = chunk[-len(_STEP) :]
            sink.write(chunk)
    raw.unlink()
    if not found:
        packed.unlink()
        raise RecordingError(
            "The profiler wrote a trace without a training step; "
            "another profiler may be active in this process, so switch that off and record again."
        )
    packed.replace(target)
