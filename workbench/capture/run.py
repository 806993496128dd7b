"""`record(plan)`: starts a recording and returns at once with a `Run` to watch, wait or cancel."""

from __future__ import annotations

import atexit
import dataclasses
import os
import shutil
import threading
from typing import TYPE_CHECKING, Any

from workbench.capture import folder, manifest, nodes
from workbench.capture.launch import start_ranks
from workbench.capture.plan import CapturePlan
from workbench.capture.supervisor import GRACE_S, Supervisor
from workbench.errors import CaptureError, UsageError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from workbench.capture.supervisor import Progress

_EXIT_WAIT_S = GRACE_S + 2


def record(
    plan: CapturePlan | str | None = None,
    *,
    on_event: Callable[[Progress], None] | None = None,
    **fields: Any,
) -> Run:
    """Start a recording in child processes and return at once.

    `plan` is a `CapturePlan`, or its fields are given, the name of a workload first:
    `record("gpt", preset="tiny", ranks=2)`, `record(script="train.py", steps=3)`. `on_event` is
    called for each event from a thread of the run, the last time when the run folder has its final
    name. Of several machines each calls this, and all but the first wait here for the folder that
    the first makes. UsageError or CaptureError when the run cannot even be started.
    """
    if not isinstance(plan, CapturePlan):
        plan = _plan(fields if plan is None else {"workload": plan} | fields)
    elif fields:
        raise UsageError(f"{', '.join(fields)} belong into the plan that is given.")
    _refuse_torchrun()
    partial, final = nodes.enter(plan)
    try:
        content = manifest.begin(plan)
        if plan.node_rank == 0:
            folder.write_manifest(partial, content)
        processes = start_ranks(plan, partial)
    except BaseException as error:
        if plan.node_rank == 0:  # to the other machines it is a folder that they share
            shutil.rmtree(partial, ignore_errors=True)
        if isinstance(error, OSError):
            raise CaptureError(folder.unwritable(partial, error)) from None
        raise
    supervisor = Supervisor(
        plan,
        partial=partial,
        final=final,
        content=content,
        processes=processes,
        on_event=on_event,
    )
    supervisor.start()
    return Run(supervisor)


def _refuse_torchrun() -> None:
    """Refuse to record once for each rank, into folders that know nothing of one another."""
    world = os.environ.get("WORLD_SIZE", "1")
    if "TORCHELASTIC_RUN_ID" in os.environ and world != "1":
        raise UsageError(
            f"torchrun has started this process as one of {world}, and a recording starts its own "
            f"ranks: run it without torchrun, with --ranks {world} (of several machines, on each "
            "of them, with --nnodes, --node-rank and --rdzv-endpoint)."
        )


def _plan(fields: dict[str, Any]) -> CapturePlan:
    known = {f.name for f in dataclasses.fields(CapturePlan)}
    for name in fields:
        if name not in known:
            raise unknown_name("field of a recording", name, known)
    return CapturePlan(**fields)


class Run:
    """One recording in progress or ended; all members are safe to use from any thread."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self.plan = supervisor.plan

    @property
    def path(self) -> Path:
        """Where the run folder is: a `.partial` while it runs, its final name once ended."""
        return self._supervisor.path

    @property
    def status(self) -> str:
        """Return running, done, failed or cancelled."""
        return self._supervisor.status

    @property
    def error(self) -> str | None:
        """Why it failed, in one sentence; None unless the status is failed or cancelled."""
        return self._supervisor.error

    @property
    def progress(self) -> Progress:
        """Return the latest event of rank 0."""
        return self._supervisor.progress

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of the ranks."""
        return tuple(process.pid for process in self._supervisor.processes)

    @property
    def manifest(self) -> dict[str, Any]:
        """Return a copy of what run.json holds by now."""
        return self._supervisor.snapshot()

    def wait(self, timeout: float | None = None) -> str:
        """Wait until the run has ended, at most `timeout` seconds; return its status."""
        self._supervisor.ended.wait(timeout)
        return self.status

    def cancel(self) -> None:
        """Ask the run to end, and return at once; a second call ends it by force."""
        self._supervisor.cancel()

    def log_tail(self, n: int = 20) -> str:
        """Return the last lines of what the training printed."""
        return self._supervisor.log_tail(n)

    def __repr__(self) -> str:
        """Say what it is in one line, without paths or times (notebook checks compare it)."""
        return f"Run({self.plan.name}, {self.status})"


def _cancel_all() -> None:
    """At the end of this process; its runs may have been let go of, but their threads live."""
    running = [thread for thread in threading.enumerate() if isinstance(thread, Supervisor)]
    for supervisor in running:
        supervisor.cancel()
    for supervisor in running:
        supervisor.ended.wait(_EXIT_WAIT_S)


atexit.register(_cancel_all)
