"""Recording in this process: a piece of code, run again and again as the body of a step.

As quick as a look can be, and not as clean as a child process: the profiler also sees what else
runs here, and nothing samples power and clocks beside it.
"""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.capture import folder, launch, manifest
from workbench.capture.child.events import Events
from workbench.capture.child.job import choose_device, facts, make_recorder
from workbench.capture.child.tracing import RecordingError, TorchTracer
from workbench.capture.process import NOISE
from workbench.capture.supervisor import Progress
from workbench.errors import CaptureError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from workbench.capture.plan import CapturePlan

NOTE = "recorded in the notebook's own process: no telemetry, and its other threads are traced too"
_STDERR = 2


class _Told(Events):
    """Takes the recorder's events: facts go into the manifest, progress to a listener."""

    def __init__(self, content: dict[str, Any], on_event: Callable[[Progress], None]) -> None:
        self._content, self._on_event = content, on_event

    def send(
        self,
        phase: str,
        *,
        step: int | None = None,
        of: int | None = None,
        seconds: float | None = None,
        loss: float | None = None,
        message: str | None = None,
        facts: dict[str, Any] | None = None,
    ) -> None:
        manifest.merge(self._content, facts or {}, 0)
        self._on_event(Progress(0, phase, step, of, seconds, message, loss))


def record_here(
    plan: CapturePlan, body: Callable[[], None], on_event: Callable[[Progress], None]
) -> Path:
    """Run `body` until its trace is written; return the run folder.

    It runs once before anything is timed, then warm-up, untraced and traced steps, one call each.
    What it raises is raised, and leaves a folder that says so: failed, or cancelled when it was
    interrupted. CaptureError where torch cannot record, or the folder can't be written.
    """
    partial, final = folder.create(plan)
    content = manifest.begin(plan)
    try:
        folder.write_manifest(partial, content)
        launch.write_code(plan, partial)
    except OSError as caught:
        shutil.rmtree(partial, ignore_errors=True)
        raise CaptureError(folder.unwritable(partial, caught)) from None
    content["processes"] = [{"rank": 0, "host": content["machine"]["host"], "pid": os.getpid()}]
    __tracebackhide__ = True  # a notebook then shows the traceback of its cell alone
    content["notes"] = [{"rank": 0, "message": NOTE}]
    status, error = "failed", None
    own = _Own(body)
    try:
        _record(launch.job(plan, partial, 0), own, _Told(content, on_event))
        status = "done"
    except RecordingError as caught:
        error = str(caught)
        raise CaptureError(error) from None
    except OSError as caught:
        if caught is own.raised:
            error = _one_line(caught)
            raise
        error = folder.unwritable(partial, caught)
        raise CaptureError(error) from None
    except BaseException as caught:
        status = "cancelled" if isinstance(caught, KeyboardInterrupt) else "failed"
        error = _one_line(caught)
        raise
    finally:
        content |= {"status": status, "error": error, "ended": manifest.now()}
        lacking = _close(partial, final, content)
    if lacking is not None:
        raise CaptureError(folder.unwritable(partial, lacking))
    return final


class _Own:
    """The body, and what it raised: its own errors are not those of recording it."""

    def __init__(self, body: Callable[[], None]) -> None:
        self.body = body
        self.raised: BaseException | None = None

    def __call__(self) -> None:
        __tracebackhide__ = True
        try:
            self.body()
        except BaseException as error:
            self.raised = error
            raise


def _one_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


def _record(job: dict[str, Any], body: Callable[[], None], events: Events) -> None:
    __tracebackhide__ = True
    events.send("setup", message="running it once")
    import torch
    import torch.profiler

    body()
    device, reason = _device(torch, job)
    events.send("setup", facts=facts(torch, device, reason))
    recorder = make_recorder(job, torch=torch, device=device, events=events)
    assert isinstance(recorder.tracer, TorchTracer)
    recorder.begin()
    with _native_errors_in(Path(job["folder"]) / "log.txt"):
        try:
            while not recorder.finished:
                body()
                recorder.end_step()
        finally:
            recorder.tracer.abandon()


def _device(torch: Any, job: dict[str, Any]) -> tuple[Any, str | None]:
    """Choose the clock by what the code has used: events of a GPU time nothing on the host."""
    if job["device"] == "auto" and not torch.cuda.is_initialized():
        return torch.device("cpu"), "timed on the CPU, since nothing here has used a GPU"
    return choose_device(torch, job["device"], 0, 1)


@contextmanager
def _native_errors_in(log: Path) -> Iterator[None]:
    """Send what native code writes, the profiler's own lines among it, to a file."""
    kept = os.dup(_STDERR)
    with log.open("wb") as file:
        os.dup2(file.fileno(), _STDERR)
        try:
            yield
        finally:
            os.dup2(kept, _STDERR)
            os.close(kept)
    log.write_bytes(b"".join(x for x in log.read_bytes().splitlines(True) if not NOISE.match(x)))


def _close(partial: Path, final: Path, content: dict[str, Any]) -> OSError | None:
    """Give the folder its name; return what was in the way, after which it reads as interrupted."""
    try:
        for leftover in partial.glob(".*"):
            leftover.unlink()
        folder.write_manifest(partial, content)
        partial.rename(final)
    except OSError as error:
        return error
    return None
