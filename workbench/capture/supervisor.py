"""The thread behind a `Run`: reads the ranks' pipes, ends them when it must, closes the folder."""

from __future__ import annotations

import contextlib
import copy
import os
import selectors
import signal
import threading
import time
import traceback
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.capture import folder, manifest, outcome, profilers
from workbench.capture.host import Host
from workbench.capture.log import RunLog
from workbench.capture.lost import lost
from workbench.capture.nodes import Nodes, take_in
from workbench.capture.nvml import Nvml
from workbench.capture.telemetry import Telemetry, TelemetrySource

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from workbench.capture.plan import CapturePlan
    from workbench.capture.process import RankProcess

GRACE_S = 3.0
_POLL_S = 0.1
_SETTLE_S = 0.3  # ranks fail one after the other; look at all of them before naming one
_NODES_SETTLE_S = 4.0  # a node tells of a rank that was killed within two seconds
_DRAIN_S = 1.0
_AFTER_DONE_S = 15.0
_REAP_S = 30.0  # a process stuck in a driver call outlives SIGKILL
_LOG_LINES = 1000
_RESERVE = 1 << 20
"""Bytes that are held on the disk, so that on a full one there is room to write how a run ended."""


@dataclass(frozen=True)
class Progress:
    """Where a run is; each event of a run is one of these."""

    rank: int
    phase: str
    """start, setup, warmup, untraced, prepare, traced, export; at last done, failed, cancelled."""
    step: int | None = None
    of: int | None = None
    seconds: float | None = None
    """Time of the step that has just ended; None where asking for it would stop the device."""
    message: str | None = None
    loss: float | None = None
    """The training's loss after that step, where it is told and reading it stops nothing."""


class Supervisor(threading.Thread):
    """Follows the ranks of one run to their end."""

    def __init__(
        self,
        plan: CapturePlan,
        *,
        partial: Path,
        final: Path,
        content: dict[str, Any],
        processes: list[RankProcess],
        on_event: Callable[[Progress], None] | None,
    ) -> None:
        super().__init__(name=f"workbench-run-{final.name}", daemon=True)
        self.plan, self.path, self.final = plan, partial, final
        self.processes, self.on_event = processes, on_event
        self.status = "running"
        self.error: str | None = None
        self._first = processes[0].rank
        self.progress = Progress(self._first, "start")
        self.ended = threading.Event()
        self._content = content
        self._lock = threading.Lock()
        self._lines: deque[str] = deque(maxlen=_LOG_LINES)
        self._cancelled = False
        self._timed_out = False
        self._collected = plan.profiler is None
        self._began = time.monotonic()
        self._deadlines: dict[str, float] = {}
        self._nvml = Nvml.open()
        sources: list[TelemetrySource] = [Host(self._pids)]
        if self._nvml:
            sources.append(self._nvml)
        self._nodes = Nodes(plan, partial, content["machine"]["host"])
        self._telemetry = Telemetry(partial / self._nodes.named("telemetry.csv"), sources)

    def cancel(self) -> None:
        """End the run: SIGTERM to each group, SIGKILL after a grace or at a second call."""
        if self.ended.is_set():
            return
        number = signal.SIGKILL if self._cancelled else signal.SIGTERM
        self._cancelled = True
        self._end_ranks(number)

    def log_tail(self, n: int) -> str:
        """Return the last lines of output; of a line that rewrites itself, its last state."""
        with self._lock:
            lines = list(self._lines)[-n:] if n > 0 else []
        return "\n".join(line.rpartition("\r")[2] for line in lines)

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the manifest so far."""
        with self._lock:
            return copy.deepcopy(self._content)

    def run(self) -> None:
        """Follow the run; whatever happens here, the ranks end and the folder is closed."""
        try:
            self._begin()
            self._follow()
            self._collect()
        except OSError as error:
            self.error = folder.unwritable(self.path, error)
        except Exception as error:  # noqa: BLE001 - told as the run's own failure
            traceback.print_exc()
            self.error = f"Recording stopped by a fault of Workbench: {error!r}."
        finally:
            self._end_ranks(signal.SIGKILL)
            self._close()

    # ---- following ------------------------------------------------------------------------

    def _begin(self) -> None:
        (self.path / ".reserve").write_bytes(os.urandom(_RESERVE))  # zeros may be packed to nothing
        self._telemetry.start()
        host = self._content["machine"]["host"]
        for process in self.processes:
            row = {"host": host, "pid": process.pid}
            manifest.merge(self._content, {"processes": [row]}, process.rank)
        self._content["driver"] = self._nvml.driver if self._nvml else None
        self._write_manifest()

    def _follow(self) -> None:
        with RunLog(self.path / self._nodes.named("log.txt")) as log:
            while self._running():
                self._read(log, _POLL_S)
                self._judge()
            until = time.monotonic() + _DRAIN_S
            while self._open() and time.monotonic() < until:
                self._read(log, _POLL_S)

    def _collect(self) -> None:
        """Take in what another profiler wrote, once all ranks have ended well."""
        well = all(process.done for process in self.processes) and self.error is None
        if self.plan.profiler is None or not well or self._has_to_end():
            return
        self._tell(Progress(0, "export", message=f"reading what {self.plan.profiler} wrote"))
        self.error = profilers.collect(self.plan, self.path, self.processes, self._has_to_end)
        self._collected = not self._has_to_end()

    def _has_to_end(self) -> bool:
        limit = self.plan.timeout_s
        self._timed_out |= limit is not None and time.monotonic() - self._began > limit
        return self._cancelled or self._timed_out

    def _running(self) -> bool:
        # A list, so that every rank is polled: the first may live on while another has died.
        return None in [process.poll() for process in self.processes]

    def _pids(self) -> list[int]:
        return [process.pid for process in self.processes]

    def _open(self) -> bool:
        return any(process.log.open or process.events.open for process in self.processes)

    def _read(self, log: RunLog, timeout: float) -> None:
        with selectors.DefaultSelector() as selector:
            for process in self.processes:
                for lines in (process.log, process.events):
                    if lines.open:
                        selector.register(lines.fd, selectors.EVENT_READ, (process, lines))
            if not selector.get_map():
                time.sleep(timeout)
                return
            ready = [key.data for key, _ in selector.select(timeout)]
        for process, lines in ready:
            if lines is process.log:
                self._write_log(log, process)
            else:
                self._take_events(process)

    def _write_log(self, log: RunLog, process: RankProcess) -> None:
        mark = f"[rank{process.rank}] " if self.plan.world > 1 else ""
        texts = [mark + line for line in process.read_log()]
        with self._lock:
            self._lines.extend(texts)
        log.write(texts)

    def _take_events(self, process: RankProcess) -> None:
        for event in process.read_events():
            with self._lock:
                manifest.merge(self._content, event.get("facts") or {}, process.rank)
            progress = Progress(
                rank=process.rank,
                phase=str(event["phase"]),
                step=event.get("step"),
                of=event.get("of"),
                seconds=event.get("seconds"),
                message=event.get("message"),
                loss=event.get("loss"),
            )
            if progress.phase != self.progress.phase and process.rank == self._first:
                self._telemetry.pace(progress.phase)
                self._write_manifest()
            says_something = progress.step is not None or progress.message is not None
            if says_something and progress.phase not in ("done", "error"):
                self._tell(progress)

    def _tell(self, progress: Progress) -> None:
        if progress.rank == self._first:
            self.progress = progress
        if self.on_event is None:
            return
        try:
            self.on_event(progress)
        except Exception:  # noqa: BLE001 - a listener's fault is not the run's
            traceback.print_exc()

    # ---- ending ---------------------------------------------------------------------------

    def _judge(self) -> None:
        """End the ranks when one failed, when time is up, or when they do not end by themselves."""
        failed = any(outcome.has_failed(process) for process in self.processes)
        done = all(process.done for process in self.processes)
        elsewhere = self._nodes.look()
        if elsewhere is not None and not (self.error or self._cancelled or self._timed_out):
            self.error = elsewhere
            self._end_ranks(signal.SIGTERM)
        if self._overdue("failure", self._settle_s(), when=failed) and self.error is None:
            self._fail()
        if not self._timed_out and self._has_to_end() and self._timed_out:
            self._end_ranks(signal.SIGTERM)
        after_s = _AFTER_DONE_S if self.plan.profiler is None else profilers.WRITES_S
        if self._overdue("exit", after_s, when=done):
            self._end_ranks(signal.SIGKILL)
        ending = self._cancelled or self._timed_out or self.error is not None
        if self._overdue("grace", GRACE_S, when=ending):
            self._end_ranks(signal.SIGKILL)

    def _settle_s(self) -> float:
        """Return how long to wait for a better culprit than a rank that lost its connection."""
        own = any(p.error is None for p in self.processes if outcome.has_failed(p))
        return _SETTLE_S if own or self.plan.nnodes == 1 else _NODES_SETTLE_S

    def _overdue(self, name: str, seconds: float, *, when: bool) -> bool:
        """Return whether a condition has held for so long."""
        if not when:
            return False
        deadline = self._deadlines.setdefault(name, time.monotonic() + seconds)
        return time.monotonic() >= deadline

    def _fail(self) -> None:
        first = outcome.culprit(self.processes)
        if first is not None and not self._cancelled and not self._timed_out:
            self.error = outcome.sentence(first, self.plan.world)
            self._end_ranks(signal.SIGTERM)

    def _end_ranks(self, number: int) -> None:
        for process in self.processes:
            process.signal(number)

    def _close(self) -> None:
        until = time.monotonic() + _REAP_S
        for process in self.processes:
            while process.poll() is None and time.monotonic() < until:
                time.sleep(_POLL_S)
            process.close()
        self._telemetry.stop()
        if self._nvml:
            self._nvml.close()
        status = self._conclude()
        status = self._with_others(status)
        try:
            if self._nodes.is_first:
                self._write_ending(status)
            elif self.final.exists():
                self.path = self.final
        except OSError as error:
            if status != "failed":
                self.error = folder.unwritable(self.path, error)
            status = "failed"
            self._disown()
        self.status = status
        self._tell(Progress(self._first, status, message=self.error))
        self.ended.set()

    def _with_others(self, status: str) -> str:
        """Take in how the run ended on other nodes; the status of the whole."""
        said = self._nodes.end(
            status, self.error, self.snapshot(), lambda: status == "done" and self._cancelled
        )
        faults = [fault for one in said if (fault := self._nodes.fault_of(one))]
        if status == "failed" and (lost_nodes := self._nodes.lost()):
            # What this node saw is a broken connection; who broke it comes first.
            gone = self._nodes.fault_of({"node": lost_nodes[0]})
            self.error = f"{gone} Here: {self.error}"
        if self._nodes.is_first:
            with self._lock:
                take_in(self._content, said)
            if status == "done" and faults and self._cancelled:
                status, self.error = "cancelled", "It was cancelled while other nodes still ran."
            elif status == "done" and faults:
                status, self.error = "failed", faults[0]
        return status

    def _write_manifest(self) -> None:
        if self._nodes.is_first:
            folder.write_manifest(self.path, self._content)

    def _conclude(self) -> str:
        done = all(process.done for process in self.processes) and self._collected
        if done and self.error is None:
            return "done"
        if self.error is None and self._cancelled:
            self.error = f"The recording was cancelled in phase {self.progress.phase}."
            return "cancelled"
        if self.error is None and self._timed_out:
            self.error = (
                f"The recording took longer than its timeout of {self.plan.timeout_s:g} s and was "
                f"ended in phase {self.progress.phase}; allow more time, or record fewer steps"
                f"{outcome.last_lines(self.processes[0])}"
            )
        if self.error is None:
            self._fail()
        self._say_what_is_kept()
        return "failed"

    def _disown(self) -> None:
        """Let a folder that can't be closed read as interrupted, not as running."""
        if not self._nodes.is_first:
            return
        told = {"status": "failed", "error": self.error, "owner": None}
        with contextlib.suppress(OSError):
            folder.write_manifest(self.path, self._content | told)

    def _say_what_is_kept(self) -> None:
        """Name the ranks whose traces were whole when another was lost."""
        kept = sorted(int(p.name[4:].split(".")[0]) for p in self.path.glob("rank*.trace.json.gz"))
        if kept and self.plan.world > 1 and self.error is not None:
            ranks = ("rank " if len(kept) == 1 else "ranks ") + ", ".join(map(str, kept))
            self.error = f"{self.error.removesuffix('.')}; the traces of {ranks} are kept."

    def _write_ending(self, status: str) -> None:
        notes = [{"message": text} for text in (self._telemetry.error,) if text]
        with self._lock:
            manifest.merge(self._content, {"notes": notes}, 0)
            self._content |= {"status": status, "error": self.error, "ended": manifest.now()}
            self._content["lost"] = lost(self.path / "log.txt")
        for leftover in self.path.glob(".*"):
            leftover.unlink()
        folder.write_manifest(self.path, self._content)
        self.path.rename(self.final)
        self.path = self.final
