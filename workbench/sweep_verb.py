"""`workbench sweep`: one run for each combination of options, and a table of their steps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.command import AsCsv, AsJson, OutFile, RunsDir, print_table
from workbench.errors import CaptureError

if TYPE_CHECKING:
    from workbench.capture.sweep_folder import Point
    from workbench.capture.sweeping import Sweep

_INTERRUPTED = 130


def sweep(  # noqa: PLR0917 - typer reads the order of arguments from the signature
    workload: Annotated[str, typer.Argument(help="The workload to record.")],
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=A,B",
            help="Values to try: a parameter, preset, device, ranks.",
        ),
    ] = None,
    preset: Annotated[str, typer.Option(help="Preset of the workload.")] = "tiny",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    steps: Annotated[int, typer.Option(help="Traced steps of each run.")] = 3,
    untraced: Annotated[int, typer.Option(help="Steps timed without the profiler.")] = 10,
    timeout: Annotated[
        float | None, typer.Option(help="Seconds after which a run is ended.")
    ] = None,
    into: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="The sweep's folder; one begun before is continued."),
    ] = None,
    runs_dir: RunsDir = Path("runs"),
    *,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    out: OutFile = None,
) -> None:
    """Record a workload under every combination of some options; print the steps' times.

    A combination that the workload refuses, or that fails, is kept with its reason and passed over.
    """
    from workbench.capture import sweep as started
    from workbench.workloads import split_settings

    grid = {key: text.split(",") for key, text in split_settings(settings or []).items()}
    made = started(
        workload,
        grid,
        path=into,
        runs_dir=runs_dir,
        on_point=_print_point,
        preset=preset,
        device=device,
        steps=steps,
        untraced=untraced,
        timeout_s=timeout,
    )
    status = _followed(made)
    if made.error is not None:
        raise CaptureError(made.error)
    about = {"folder": str(made.path), "status": status}
    print_table(made.frame(), meta=about, as_json=as_json, as_csv=as_csv, out=out)
    if status == "cancelled":
        raise typer.Exit(_INTERRUPTED)
    if status == "failed":
        raise CaptureError(f"No combination was recorded; the reasons are in {made.path}.")


def _followed(made: Sweep) -> str:
    """Wait for the sweep; Ctrl-C cancels it, a second one ends its run by force."""
    from workbench.recording import ends_as_interrupts

    with ends_as_interrupts():
        while made.status == "running":
            try:
                made.wait()
            except KeyboardInterrupt:
                typer.echo("cancelling; once more ends it by force", err=True)
                made.cancel()
    return made.status


def _print_point(point: Point, number: int, count: int) -> None:
    said = point.status if point.error is None else f"{point.status}: {point.error}"
    typer.echo(f"{number}/{count}  {point.name}  {said}", err=True)
