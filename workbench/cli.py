"""The command line: `workbench VERB`. Each verb imports what it needs when it runs.

Exit 0; 1 for a gate that failed; 2 for a usage or input error, with one sentence on standard
error; 130 when interrupted.
"""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workbench.analysis.names import ANALYSES
from workbench.errors import UsageError, WorkbenchError

if TYPE_CHECKING:
    import polars as pl

    from workbench.trace.core import Job, Trace

_INTERRUPTED = 130
_USAGE = 2
# Typer may carry its own copy of click: its exceptions are reached through what it exports.
_ClickError: Any = typer.BadParameter.__mro__[2]

app = typer.Typer(
    name="workbench",
    help="Record AI-training runs and see where the step goes.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

SHOW = f"""Print an analysis or a table of a recording.

Analyses: {", ".join(ANALYSES)}.

Tables: activities, launches, ops, ranges, steps, collectives, frames, memory, segments, counters,
dependencies, problems; one that shares its name with an analysis is table:NAME.
"""

# ---- options that verbs share -------------------------------------------------------------
# A verb that prints a table takes `as_json: AsJson = False, as_csv: AsCsv = False,
# out: OutFile = None` and ends in `print_table(...)`.

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print CSV.")]
OutFile = Annotated[
    Path | None, typer.Option("-o", "--output", help="Write to this .parquet file instead.")
]
Force = Annotated[bool, typer.Option("--force", help="Replace what was exported before.")]
RunsDir = Annotated[Path, typer.Option("--runs-dir", help="The folder that holds run folders.")]


def print_table(
    frame: pl.DataFrame,
    *,
    meta: dict[str, Any],
    problems: pl.DataFrame | None = None,
    as_json: bool = False,
    as_csv: bool = False,
    out: Path | None = None,
    title: str | None = None,
) -> None:
    """Print a verb's table; a reader that has gone away is no error."""
    from workbench.output import emit

    try:
        emit(frame, meta=meta, problems=problems, json=as_json, csv=as_csv, out=out, title=title)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit from None


# ---- verbs --------------------------------------------------------------------------------


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    *,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        from workbench.version import __version__

        typer.echo(f"workbench {__version__}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def record(  # noqa: PLR0917 - typer reads the order of arguments from the signature
    subject: Annotated[
        list[str] | None,
        typer.Argument(metavar="WORKLOAD | -- ARGS", help="A workload, or a script's arguments."),
    ] = None,
    script: Annotated[
        Path | None, typer.Option(help="Record this script of yours, instead of a workload.")
    ] = None,
    preset: Annotated[str, typer.Option(help="Preset of the workload.")] = "tiny",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a parameter (repeatable)."),
    ] = None,
    precision: Annotated[str | None, typer.Option(help="Precision of the workload.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    ranks: Annotated[int, typer.Option(help="Processes on this machine.")] = 1,
    warmup: Annotated[int, typer.Option(help="Most warm-up steps.")] = 10,
    untraced: Annotated[int, typer.Option(help="Steps timed without the profiler.")] = 5,
    steps: Annotated[int, typer.Option(help="Traced steps.")] = 5,
    *,
    stacks: Annotated[bool, typer.Option("--stacks", help="Record Python stacks.")] = False,
    shapes: Annotated[bool, typer.Option(help="Record tensor shapes.")] = True,
    memory: Annotated[bool, typer.Option(help="Record allocations.")] = True,
    python: Annotated[
        Path | None, typer.Option(help="Interpreter of the training environment.")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(help="Seconds after which the run is ended.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--output", help="The run folder to make.")
    ] = None,
    runs_dir: RunsDir = Path("runs"),
) -> None:
    """Run a workload, or --script FILE -- ARGS, under the profiler; print its run folder."""
    from workbench.capture import CapturePlan
    from workbench.recording import follow
    from workbench.workloads import split_settings

    plan = CapturePlan(
        workload=_workload(subject, script),
        preset=preset,
        overrides=split_settings(settings or []),
        precision=precision,
        script=script,
        arguments=tuple(subject or ()) if script else (),
        device=device,
        ranks=ranks,
        warmup=warmup,
        untraced=untraced,
        steps=steps,
        shapes=shapes,
        memory=memory,
        stacks=stacks,
        python=python,
        timeout_s=timeout,
        out=out,
        runs_dir=runs_dir,
    )
    follow(plan)


@app.command()
def runs(
    rename: Annotated[
        tuple[str, str] | None, typer.Option(metavar="OLD NEW", help="Rename a run.")
    ] = None,
    delete: Annotated[str | None, typer.Option(metavar="NAME", help="Delete a run.")] = None,
    runs_dir: RunsDir = Path("runs"),
    *,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    out: OutFile = None,
) -> None:
    """List run folders with their status, rename one, or delete one."""
    from workbench.capture import folder, listing

    if rename is not None and delete is not None:
        raise UsageError("--rename and --delete exclude each other; give one of them.")
    if rename is not None:
        typer.echo(folder.rename(runs_dir, *rename))
    elif delete is not None:
        typer.echo(f"deleted {folder.delete(runs_dir, delete)}", err=True)
    else:
        table = listing.frame(folder.list_runs(runs_dir))
        meta = {"runs_dir": str(runs_dir)}
        print_table(table, meta=meta, as_json=as_json, as_csv=as_csv, out=out)


@app.command()
def doctor(
    python: Annotated[
        Path | None, typer.Option(help="Interpreter of the training environment.")
    ] = None,
    runs_dir: RunsDir = Path("runs"),
    *,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    out: OutFile = None,
) -> None:
    """Say what this machine can record, and what is missing with its fix."""
    from workbench.capture.doctor import examine

    print_table(examine(runs_dir, python), meta={}, as_json=as_json, as_csv=as_csv, out=out)


@app.command()
def workloads(
    name: Annotated[str | None, typer.Argument(help="Show the parameters of this one.")] = None,
    *,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    out: OutFile = None,
) -> None:
    """List workloads with their presets; of one workload, its parameters."""
    from workbench.capture import listing

    table = listing.presets() if name is None else listing.parameters(name)
    print_table(table, meta={"workload": name}, as_json=as_json, as_csv=as_csv, out=out)


@app.command(help=SHOW)
def show(  # noqa: PLR0917 - typer reads the order of arguments from the signature
    source: Annotated[
        Path, typer.Argument(help="A run folder, a trace file or a folder of ranks.")
    ],
    name: Annotated[str, typer.Argument(help="An analysis or a table.")] = ("summary"),
    window: Annotated[
        str | None, typer.Option(help="steps, steady, host or all: which stretch of time counts.")
    ] = None,
    step: Annotated[str | None, typer.Option(metavar="A:B", help="Only steps A to B.")] = None,
    rank: Annotated[int | None, typer.Option(help="Only this rank.")] = None,
    device: Annotated[int | None, typer.Option(help="Only this device.")] = None,
    by: Annotated[
        str | None, typer.Option(metavar="A,B", help="Group kernels or ops by these columns.")
    ] = None,
    top: Annotated[int | None, typer.Option(help="Only the first N rows.")] = None,
    sort: Annotated[str | None, typer.Option(help="Sort by this column.")] = None,
    columns: Annotated[str | None, typer.Option(metavar="A,B", help="Only these columns.")] = None,
    *,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    out: OutFile = None,
) -> None:
    """Print an analysis or a table of a recording; its help names them all (`SHOW`)."""
    from workbench import show as shown
    from workbench.trace.open import open_source

    opened = open_source(source)
    choice = shown.Choice(
        window=window,
        step=shown.step_range(step) if step is not None else None,
        rank=rank,
        device=device,
        by=None if by is None else shown.names_in(by),
    )
    found = shown.frame(opened, name, choice)
    table = shown.arrange(found, top=top, sort=sort, columns=columns)
    about = shown.about(opened, name, choice)
    problems = shown.frame(opened, "problems", shown.Choice())
    if not (as_json or out):
        about = shown.brief(about)
    print_table(table, meta=about, problems=problems, as_json=as_json, as_csv=as_csv, out=out)


@app.command()
def compare(
    a: Annotated[Path, typer.Argument(help="The recording before.")],
    b: Annotated[Path, typer.Argument(help="The recording after.")],
    *,
    step: Annotated[str | None, typer.Option(metavar="A:B", help="Only steps A to B.")] = None,
    rank: Annotated[int | None, typer.Option(help="Only this rank.")] = None,
    kind: Annotated[str | None, typer.Option(help="part, family, operator, kernel, host.")] = None,
    top: Annotated[int | None, typer.Option(help="Only the first N rows of each kind.")] = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    out: OutFile = None,
) -> None:
    """Print what changed from A to B, in parts that add up to the change of the step."""
    from workbench.comparison import brief, compared

    found, meta = compared(a, b, step=step, rank=rank, kind=kind, top=top)
    if not (as_json or out):
        meta = brief(meta)
    print_table(found, meta=meta, as_json=as_json, as_csv=as_csv, out=out)


@app.command()
def export(
    source: Annotated[
        Path, typer.Argument(help="A run folder, a trace file or a folder of ranks.")
    ],
    out: Annotated[
        Path,
        typer.Option("-o", "--output", help="FILE.json[.gz] for Perfetto, or a folder of Parquet."),
    ],
    form: Annotated[
        str | None, typer.Option("--format", help="chrome or parquet, whatever the name says.")
    ] = None,
    rank: Annotated[int | None, typer.Option(help="Only this rank.")] = None,
    between: Annotated[
        str | None,
        typer.Option("--range", metavar="A:B", help="Only from A to B ms after the start."),
    ] = None,
    *,
    force: Force = False,
) -> None:
    """Write a recording for Perfetto (Chrome JSON) or as Parquet; several ranks make a folder."""
    from workbench.trace.write import cut
    from workbench.trace.write.export import export as write

    opened = _opened(source, rank)
    chosen = None
    if between is not None:
        stretch = cut.milliseconds(between)
        chosen = lambda trace: cut.between(trace, *stretch)  # noqa: E731 - as in trim
    typer.echo(write(opened, out, form=form, cut=chosen, force=force))


@app.command()
def trim(
    source: Annotated[
        Path, typer.Argument(help="A run folder, a trace file or a folder of ranks.")
    ],
    steps: Annotated[str, typer.Option(metavar="A-B", help="The steps to keep, as in 3-5.")],
    out: Annotated[
        Path, typer.Option("-o", "--output", help="FILE.json[.gz]; a folder for several ranks.")
    ],
    rank: Annotated[int | None, typer.Option(help="Only this rank.")] = None,
    *,
    force: Force = False,
) -> None:
    """Cut a recording to some of its steps, which then read as they did in the whole."""
    from workbench.trace.write import cut
    from workbench.trace.write.export import export as write

    first, last = cut.step_numbers(steps)
    opened = _opened(source, rank)
    typer.echo(write(opened, out, cut=lambda trace: cut.steps(trace, first, last), force=force))


@app.command()
def report(
    source: Annotated[
        Path, typer.Argument(help="A run folder, a trace file or a folder of ranks.")
    ],
    out: Annotated[
        Path | None, typer.Option("-o", "--output", help="The .html file to write.")
    ] = None,
) -> None:
    """Write one offline HTML file: timeline alive, breakdown, steps, kernels, operators."""
    from workbench.report import write

    typer.echo(write(source, out))


@app.command()
def cache(
    source: Annotated[
        Path | None, typer.Argument(help="With --clear: only what was read from this file.")
    ] = None,
    *,
    clear: Annotated[bool, typer.Option("--clear", help="Remove what the cache holds.")] = False,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    out: OutFile = None,
) -> None:
    """List the traces that are kept ready in the cache, or clear it.

    WORKBENCH_CACHE names its folder, or is "off"; WORKBENCH_CACHE_MAX_GB (10) bounds its size.
    """
    from workbench.trace import cachefolder

    if clear:
        gone = cachefolder.clear(source)
        typer.echo(f"{gone} trace{'' if gone == 1 else 's'} removed from the cache", err=True)
        return
    if source is not None:
        raise UsageError(f"{source} is only of use with --clear; leave it out to list the cache.")
    about = cachefolder.about()
    print_table(cachefolder.listing(), meta=about, as_json=as_json, as_csv=as_csv, out=out)


@app.command()
def ceilings(
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    *,
    refresh: Annotated[bool, typer.Option("--refresh", help="Measure again.")] = False,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    out: OutFile = None,
) -> None:
    """Measure this machine's roofs (a few seconds), or show what was measured before."""
    from workbench.costs import ceilings as measured

    found = measured.ceilings(device, refresh=refresh)
    about = measured.about(found)
    print_table(measured.frame(found), meta=about, as_json=as_json, as_csv=as_csv, out=out)


@app.command()
def lab(
    folder: Annotated[
        Path | None, typer.Argument(help="Where the notebooks go; only an installed copy needs it.")
    ] = None,
) -> None:
    """Open JupyterLab on the start notebook."""
    from workbench.lab import start

    start(folder)


# ---- opening ------------------------------------------------------------------------------


def _opened(source: Path, rank: int | None) -> Trace | Job:
    """Open a source, or one of its ranks."""
    from workbench.trace.open import open_source

    opened = open_source(source)
    if rank is None:
        return opened
    for trace in opened.ranks:
        if trace.meta.rank == rank:
            return trace
    known = ", ".join(str(t.meta.rank) for t in opened.ranks)
    raise UsageError(f"{source} has no rank {rank}; it has {known}.")


# ---- recording ----------------------------------------------------------------------------


def _workload(subject: list[str] | None, script: Path | None) -> str | None:
    """Return the one word that names a workload; with --script all words are its arguments."""
    if script is not None or not subject:
        return None
    if len(subject) > 1:
        raise UsageError(
            f"{subject[1]!r} is too much after the workload {subject[0]!r}; "
            "a parameter is changed with --set KEY=VALUE."
        )
    return subject[0]


# ---- entry --------------------------------------------------------------------------------


def main() -> None:
    """Run the command line; every error on purpose is one sentence and exit 2."""
    _mend_streams()
    try:
        code = app(standalone_mode=False)
    except (WorkbenchError, OSError) as error:
        _fail(str(error))
    except typer.Abort:
        raise SystemExit(_INTERRUPTED) from None
    except _ClickError as error:
        _fail(f"{error.format_message().rstrip('.')}; see workbench --help.")
    else:
        raise SystemExit(code if isinstance(code, int) else 0)


def _mend_streams() -> None:
    """Make sure that there are streams, and that no name from a trace is too odd for them."""
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _fail(sentence: str) -> None:
    typer.echo(f"workbench: {sentence}", err=True)
    raise SystemExit(_USAGE)


if __name__ == "__main__":
    main()
