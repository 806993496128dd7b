"""The verbs around recording: what can run here, running it, what was run, and sharing it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from workbench.command import AsCsv, AsJson, OutFile, RunsDir, print_table
from workbench.errors import UsageError


def record(  # noqa: PLR0917 - typer reads the order of arguments from the signature
    subject: Annotated[
        list[str] | None,
        typer.Argument(metavar="WORKLOAD | -- ARGS", help="A workload, or a script's arguments."),
    ] = None,
    script: Annotated[
        Path | None, typer.Option(help="Record this script of yours, instead of a workload.")
    ] = None,
    function: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A function of the script that is one step."),
    ] = None,
    preset: Annotated[str, typer.Option(help="Preset of the workload.")] = "tiny",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a parameter (repeatable)."),
    ] = None,
    precision: Annotated[str | None, typer.Option(help="Precision of the workload.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    ranks: Annotated[int, typer.Option(help="Processes on this machine.")] = 1,
    nnodes: Annotated[int, typer.Option(help="Machines, each started with this command.")] = 1,
    node_rank: Annotated[int, typer.Option(help="The number of this machine, from 0.")] = 0,
    rdzv_endpoint: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="A free port of machine 0, where ranks meet."),
    ] = None,
    warmup: Annotated[int, typer.Option(help="Most warm-up steps.")] = 10,
    untraced: Annotated[int, typer.Option(help="Steps timed without the profiler.")] = 5,
    steps: Annotated[int, typer.Option(help="Traced steps.")] = 5,
    *,
    stacks: Annotated[bool, typer.Option("--stacks", help="Record Python stacks.")] = False,
    shapes: Annotated[bool, typer.Option(help="Record tensor shapes.")] = True,
    memory: Annotated[bool, typer.Option(help="Record allocations.")] = True,
    memory_history: Annotated[
        bool, typer.Option("--memory-history", help="Keep the GPU allocator's history.")
    ] = False,
    execution_trace: Annotated[
        bool, typer.Option("--execution-trace", help="Keep torch's execution trace.")
    ] = False,
    early_profiler: Annotated[
        bool,
        typer.Option("--early-profiler", help="Start it before a script captures CUDA graphs."),
    ] = False,
    profiler: Annotated[
        str | None,
        typer.Option(
            "--with",
            metavar="nsys | ncu KERNEL",
            help="Record with Nsight Systems, or count the kernels that match with Nsight Compute.",
        ),
    ] = None,
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
    emit: Annotated[
        str | None,
        typer.Option(metavar="slurm", help="Print a batch script that records this, and end."),
    ] = None,
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
        function=function,
        device=device,
        ranks=ranks,
        nnodes=nnodes,
        node_rank=node_rank,
        rdzv_endpoint=rdzv_endpoint,
        warmup=warmup,
        untraced=untraced,
        steps=steps,
        shapes=shapes,
        memory=memory,
        stacks=stacks,
        memory_history=memory_history,
        execution_trace=execution_trace,
        early_profiler=early_profiler,
        profiler=None if profiler is None else profiler.partition(":")[0],
        kernel=None if profiler is None else profiler.partition(":")[2] or None,
        python=python,
        timeout_s=timeout,
        out=out,
        runs_dir=runs_dir,
    )
    if emit is None:
        follow(plan)
    elif emit == "slurm":
        from workbench.capture import slurm

        typer.echo(slurm.script(plan), nl=False)
    else:
        raise UsageError(f"--emit {emit} is not known; it writes scripts for slurm.")


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


def workloads(
    name: Annotated[str | None, typer.Argument(help="Show the parameters of this one.")] = None,
    *,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    out: OutFile = None,
) -> None:
    """List workloads with their presets; of one workload, its parameters."""
    from workbench.capture import listing
    from workbench.workloads import faults

    table = listing.presets() if name is None else listing.parameters(name)
    meta = {"workload": name} | ({"unusable": list(faults())} if faults() else {})
    print_table(table, meta=meta, as_json=as_json, as_csv=as_csv, out=out)


def ceilings(
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    *,
    refresh: Annotated[bool, typer.Option("--refresh", help="Measure again.")] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Try more shapes and sizes, for a minute or two.")
    ] = False,
    run: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Keep them in this run folder, recorded here."),
    ] = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    out: OutFile = None,
) -> None:
    """Measure this machine's roofs (a few seconds), or show what was measured before."""
    from workbench.costs import ceilings as measured
    from workbench.costs import run_roofs

    if run is not None:
        run_roofs.check(run)
    found = measured.ceilings(device, refresh=refresh, full=full)
    if run is not None:
        run_roofs.keep(found, run)
    about = measured.about(found)
    print_table(measured.frame(found), meta=about, as_json=as_json, as_csv=as_csv, out=out)


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


def redact(
    source: Annotated[
        Path, typer.Argument(help="A run folder, a trace file or a folder of ranks.")
    ],
    new: Annotated[
        Path,
        typer.Option("-o", "--output", help="The copy: FILE.json.gz of one file, else a folder."),
    ],
    key: Annotated[
        Path | None,
        typer.Option(
            help="The private key's file, NEW.key.json by default; an earlier one is used again."
        ),
    ] = None,
    *,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Copy a recording without the user's own names and stacks, and compare every analysis of both.

    Names of modules, kernels, ranges, hosts, paths that no public list has become pseudonyms, which
    the private key maps back. Exit 1 when an analysis tells another thing of the copy.
    """
    from workbench.redaction import redact as copied

    made = copied(source, new, key=key)
    table = made.proof if as_json or as_csv else made.proof.drop("same")
    print_table(table, meta=made.about(brief=not as_json), as_json=as_json, as_csv=as_csv)
    if not made.is_same:
        raise typer.Exit(1)
