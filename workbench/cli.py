"""The command line: `workbench VERB`. Each verb imports what it needs when it runs.

Here are the verbs on recordings, and the entry; those around recording are in `workbench.verbs`.

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
from workbench.command import AsCsv, AsJson, Force, OutFile, RecordCommand, print_table
from workbench.errors import UsageError, WorkbenchError
from workbench.note_verb import notes
from workbench.sweep_verb import sweep
from workbench.verbs import ceilings, doctor, record, redact, runs, workloads

if TYPE_CHECKING:
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
app.command(cls=RecordCommand)(record)
for _verb in (sweep, runs, doctor, workloads, ceilings, notes, redact):
    app.command()(_verb)

SHOW = f"""Print an analysis or a table of a recording.

Analyses: {", ".join(ANALYSES)}.

Tables: activities, launches, ops, ranges, steps, collectives, frames, memory, segments, counters,
kernel_counters, dependencies, problems; one that shares its name with an analysis is table:NAME.
"""


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
    convention: Annotated[
        str | None, typer.Option(help="How FLOPs count: default, 6P, megatron, …")
    ] = None,
    counters: Annotated[
        Path | None,
        typer.Option(help="Hardware counters of the same program, for the names that take them."),
    ] = None,
    hardware: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE", help="Roofs of this part, or of a .csv or .json that describes it."
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND=NAME",
            help="Only what is of a kernel, operator or module=PATH; may be given for each.",
        ),
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
    from workbench.analysis.only import parsed
    from workbench.trace.open import open_source

    opened = open_source(source)
    choice = shown.Choice(
        window=window,
        step=shown.step_range(step) if step is not None else None,
        rank=rank,
        device=device,
        by=None if by is None else shown.names_in(by),
        convention=convention,
        counters=None if counters is None else _counters(counters),
        hardware=hardware,
        only=parsed(only) if only else None,
    )
    found = shown.frame(opened, name, choice)
    table = shown.arrange(found, top=top, sort=sort, columns=columns)
    about = shown.about(opened, name, choice)
    problems = shown.frame(opened, "problems", shown.Choice())
    if not (as_json or out):
        about = shown.brief(about)
    print_table(table, meta=about, problems=problems, as_json=as_json, as_csv=as_csv, out=out)


def _counters(path: Path) -> Trace:
    from workbench.trace.open import open_source

    opened = open_source(path)
    if len(opened.ranks) != 1 or opened.ranks[0].kernel_counters.is_empty():
        raise UsageError(
            f"{path} holds no hardware counters of kernels; give --counters a file of "
            "ncu --csv, or a folder of rocprof-compute."
        )
    return opened.ranks[0]


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
        Path,
        typer.Argument(help="A run folder, a trace file or a folder of ranks; or a notebook."),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            help="FILE.json[.gz] for Perfetto, or a folder of Parquet; of a notebook FILE.html.",
        ),
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
    execute: Annotated[
        bool, typer.Option("--execute", help="Run the notebook first, in its folder.")
    ] = False,
    code: Annotated[bool, typer.Option(help="Keep the notebook's code.")] = True,
) -> None:
    """Write a recording for Perfetto or as Parquet, or a notebook as HTML with its views alive."""
    if source.suffix == ".ipynb":
        _export_notebook(
            source, out, {"format": form, "rank": rank, "range": between}, execute, code
        )
        return
    if execute or not code:
        raise UsageError(f"--execute and --no-code are for notebooks; {source} is none.")
    from workbench.trace.write import cut
    from workbench.trace.write.export import export as write

    opened = _opened(source, rank)
    chosen = None
    if between is not None:
        stretch = cut.milliseconds(between)
        chosen = lambda trace: cut.between(trace, *stretch)  # noqa: E731 - as in trim
    typer.echo(write(opened, out, form=form, cut=chosen, force=force))


def _export_notebook(
    source: Path, out: Path, of_recordings: dict[str, object], execute: bool, code: bool
) -> None:
    from workbench.notebook import export as write

    given = [f"--{name}" for name, value in of_recordings.items() if value is not None]
    if given:
        raise UsageError(f"{' and '.join(given)}: for recordings; {source} is a notebook.")
    done = write(source, out, code=code, execute=execute)
    typer.echo(done.path)
    if said := done.said():
        typer.echo(said, err=True)


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
        Path | None,
        typer.Option("-o", "--output", help="FILE.html; .svg or .png: the timeline as a picture."),
    ] = None,
) -> None:
    """Write one offline HTML file, alive: timeline, tables and pictures, linked."""
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
def lab(
    place: Annotated[
        Path | None,
        typer.Argument(
            metavar="FOLDER|SOURCE",
            help="Where the notebooks go (only an installed copy needs it); with --app, what to "
            "show: a run folder, a trace file or a folder of ranks.",
        ),
    ] = None,
    *,
    as_app: Annotated[
        bool, typer.Option("--app", help="Serve the explorer alone, without code cells.")
    ] = False,
    ip: Annotated[str, typer.Option(help="The address to listen at.")] = "localhost",
    port: Annotated[int | None, typer.Option(help="The port to listen at.")] = None,
    browser: Annotated[bool, typer.Option(help="Open a browser.")] = True,
) -> None:
    """Open JupyterLab on the start notebook, or the explorer as an app."""
    from workbench import app as apps
    from workbench import lab as labs

    serving = labs.Serving(ip=ip, port=port, browser=browser)
    if as_app:
        apps.start(place, serving)
    else:
        labs.start(place, serving)


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
