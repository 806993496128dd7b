"""`open_source`: whatever a person points at, told by its content, to a `Trace` or a `Job`."""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import polars as pl

from workbench import progress
from workbench.errors import InputError, NotATraceError
from workbench.trace import cache as cached
from workbench.trace import formats, store
from workbench.trace.core import Job, Trace
from workbench.trace.problems import Problem
from workbench.trace.problems import table as problem_table

RUN_FILE = "run.json"
_RANK = re.compile(r"rank[_-]?(\d+)", re.IGNORECASE)
_RANK_DIGITS = 9
_TRACE_NAMES = (
    "*.json", "*.json.gz", "*.json.zip", "*.sqlite", "*.rpd", "*.xplane.pb", "*.et", "*.et.gz",
)  # fmt: skip
_SIDE_FILES = {RUN_FILE, "notes.json", "answers.json"}


def open_source(source: str | Path, *, cache: bool = True) -> Trace | Job:
    """Open a trace file, a run folder, a folder of ranks or a folder that was exported.

    Returns a `Trace` for a file and for a folder with one trace of unknown rank, else a `Job`.
    With `cache`, files that were read before come from the user's cache folder.

    Raises
    ------
    InputError
        One sentence says what is wrong with which file.
    """
    path = Path(source)
    return _open_folder(path, cache=cache) if path.is_dir() else open_file(path, cache=cache)


def open_file(path: Path, *, cache: bool = True) -> Trace:
    """Open one trace file by its content."""
    if not path.exists():
        raise InputError(f"There is no file or folder {path}; check the path.")
    if not path.is_file():
        raise InputError(f"{path} is neither a file nor a folder, so it isn't read.")
    with progress.shown(path.name, path.stat().st_size):
        return cached.fetch(path, formats.read) if cache else formats.read(path)


def _open_folder(folder: Path, *, cache: bool) -> Trace | Job:
    if store.is_stored(folder):
        return store.load(folder)
    stored = sorted(f.parent for f in folder.glob(f"*/{store.MANIFEST}"))
    if stored and not any(folder.glob("*.json*")):
        return _job([_with_rank(store.load(f), f) for f in stored])
    return _job(_open_traces(_trace_files(folder), cache=cache))


def _job(traces: list[Trace]) -> Trace | Job:
    if len(traces) == 1 and traces[0].meta.rank is None:
        return traces[0]
    return Job(tuple(sorted(traces, key=lambda t: -1 if t.meta.rank is None else t.meta.rank)))


def _open_traces(files: Iterable[Path], *, cache: bool) -> list[Trace]:
    """Open the traces among some files; the others are named as a problem."""
    traces: list[Trace] = []
    others: list[tuple[Path, NotATraceError | None]] = []
    for file in files:
        try:
            traces.append(_with_rank(open_file(file, cache=cache), file))
        except NotATraceError as error:
            others.append((file, error))
    if not traces and others and others[0][1]:
        raise others[0][1]
    traces, beside = _of_one_format(traces)
    others += [(t.meta.path, None) for t in beside]
    if others:
        note = Problem(
            code="other_files",
            count=len(others),
            first_example=others[0][0].name,
            effect="these files of the folder are no traces of the kind that the others are, "
            "and were passed over; open them one by one",
        )
        traces[0] = _with_problem(traces[0], note)
    return traces


def _of_one_format(traces: list[Trace]) -> tuple[list[Trace], list[Trace]]:
    """Part the traces of the format that says most from those of other formats.

    Recordings with times go before graphs and memory snapshots of the same run.
    """

    def says(form: str) -> tuple[int, int]:
        mine = [t for t in traces if t.meta.format == form]
        events = [t.activities.height + t.launches.height + t.ops.height for t in mine]
        return sum(n for t, n in zip(mine, events, strict=True) if t.meta.timed), sum(events)

    best = max({t.meta.format: None for t in traces}, key=says, default=None)
    return (
        [t for t in traces if t.meta.format == best],
        [t for t in traces if t.meta.format != best],
    )


def _with_problem(trace: Trace, note: Problem) -> Trace:
    problems = pl.concat([trace.problems, problem_table([note])])
    tables = ChainMap({"problems": problems}, trace.tables)  # type: ignore[arg-type] # only read
    return replace(trace, tables=tables)


def _trace_files(folder: Path) -> list[Path]:
    """Return the traces of a folder; in a run folder those that the recording named."""
    if folder.name.startswith(".") and folder.name.endswith(".partial"):
        raise InputError(f"{folder} is a recording that has not ended; wait for it.")
    names = ("rank*.trace.json*",) if (folder / RUN_FILE).exists() else _TRACE_NAMES
    files = sorted({f for pattern in names for f in folder.glob(pattern)})
    files = [f for f in files if f.name not in _SIDE_FILES and ".memory." not in f.name]
    if not files and (folder / RUN_FILE).exists():
        raise InputError(f"The run {folder} holds no trace; its log.txt says why it failed.")
    if not files:
        raise InputError(
            f"{folder} holds no trace: none of its files is named {' or '.join(_TRACE_NAMES)}."
        )
    return files


def _with_rank(trace: Trace, path: Path) -> Trace:
    """Take the rank from the file's name when the recording doesn't say it."""
    named = _RANK.search(path.name)
    if trace.meta.rank is not None or not named or len(named[1]) > _RANK_DIGITS:
        return trace
    return replace(trace, meta=replace(trace.meta, rank=int(named[1])))
