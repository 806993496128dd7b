"""What the command line does while a run goes on: progress, and what ends it."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from workbench.capture import record
from workbench.errors import CaptureError, WorkbenchError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workbench.capture import CapturePlan, Progress, Run

INTERRUPTED = 130
_MS = 1e3


def follow(plan: CapturePlan) -> None:
    """Record, print progress, and end with the run's folder or its failure."""
    run = record(plan, on_event=_print_progress)
    with ends_as_interrupts():
        status = _wait(run)
    if status == "cancelled":
        typer.echo(f"workbench: {run.error} What there is lies in {run.path}.", err=True)
        raise typer.Exit(INTERRUPTED)
    if status == "failed":
        raise CaptureError(f"{run.error} [log: {run.path / 'log.txt'}]")
    typer.echo(run.path)
    if plan.node_rank == 0:
        _print_gaps(run)


@contextmanager
def ends_as_interrupts() -> Iterator[None]:
    """Treat a closed terminal and SIGTERM like Ctrl-C, so that the run is cancelled cleanly."""
    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, signal.default_int_handler) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _wait(run: Run) -> str:
    """Wait for the run; Ctrl-C cancels it, a second one ends it by force."""
    while run.status == "running":
        try:
            run.wait()
        except KeyboardInterrupt:
            typer.echo("cancelling; once more ends it by force", err=True)
            run.cancel()
    return run.status


def _print_gaps(run: Run) -> None:
    """Say what the recording lacks, with the fix of each gap; reading it makes it ready as well."""
    from workbench import lint

    try:
        gaps = lint.lint(run.path)
    except WorkbenchError as error:
        typer.echo(f"the recording cannot be read yet: {error}", err=True)
        return
    for line in lint.lines(run.path, gaps):
        typer.echo(line, err=True)


def _print_progress(progress: Progress) -> None:
    if progress.rank or progress.phase in ("done", "failed", "cancelled"):
        return
    parts = [f"{progress.phase:<8}"]
    if progress.step is not None:
        parts.append(f"{progress.step}" + (f"/{progress.of}" if progress.of else ""))
    if progress.seconds is not None:
        parts.append(f"{_MS * progress.seconds:.4g} ms")
    if progress.loss is not None:
        parts.append(f"loss {progress.loss:.4g}")
    if progress.message is not None:
        parts.append(progress.message)
    typer.echo("  ".join(parts), err=True)
