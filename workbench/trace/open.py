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
from workbench.trace import formats, store, windows
from workbench.trace.core import Job, Trace
from workbench.trace.counters import COUNTERS
from workbench.trace.problems import Problem
from workbench.trace.problems import table as problem_table
from workbench.trace.runfile import RUN_FILE, missing_ranks

CEILINGS_FILE = "ceilings.json"
"""Measured roofs of the machine that recorded the run."""
_RANK = re.compile(r"rank[_-]?(\d+)", re.IGNORECASE)
_RANK_DIGITS = 9
_NAMED_FILES = 3
"""Files that were passed over are named with the reason up to so many."""
_TRACE_NAMES = (
    "*.json", "*.json.gz", "*.json.zip", "*.sqlite", "*.rpd", "*.xplane.pb", "*.et", "*.et.gz",
)  # fmt: skip
_RUN_NAMES = ("rank*.trace.json*", "rank*.sqlite", "rank*.ncu.csv")
"""Traces of a run folder: of torch's profiler, or of the one that took its place."""
_SIDE_FILES = {RUN_FILE, CEILINGS_FILE, "notes.json", "answers.json"}


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
    if stored and not any(f.name not in _SIDE_FILES for f in folder.glob("*.json*")):
        return _job([_with_rank(store.load(f), f, note=False) for f in stored])
    if (folder / COUNTERS).is_file() and not (folder / RUN_FILE).exists():
        return open_file(folder / COUNTERS, cache=cache)
    named = not (folder / RUN_FILE).exists()
    traces = _open_traces(_trace_files(folder), note_rank=named, cache=cache)
    if note := missing_ranks(folder, traces):
        traces[0] = _with_problem(traces[0], note)
    return _job(_windows_merged(traces))


def _job(traces: list[Trace]) -> Trace | Job:
    if len(traces) == 1 and traces[0].meta.rank is None:
        return traces[0]
    traces = _fewer_windows_noted(traces)
    return Job(tuple(sorted(traces, key=lambda t: -1 if t.meta.rank is None else t.meta.rank)))


def _windows_merged(traces: list[Trace]) -> list[Trace]:
    """Make one trace of the files of each rank that are windows of one run; keep the others."""
    of_rank: dict[int | None, list[Trace]] = {}
    for trace in traces:
        of_rank.setdefault(trace.meta.rank, []).append(trace)
    merged: list[Trace] = []
    for mine in of_rank.values():
        one = len(mine) > 1 and windows.of_one_run(mine)
        merged += [windows.merge(mine)] if one else mine
    return merged


def _fewer_windows_noted(traces: list[Trace]) -> list[Trace]:
    """Note at each rank that it has fewer files than another, when it has."""
    counts = [len(t.meta.windows) or 1 for t in traces]
    noted = []
    for trace, count in zip(traces, counts, strict=True):
        note = Problem(
            code="fewer_windows",
            count=max(counts) - count,
            first_example=f"rank {trace.meta.rank} has {count} of {max(counts)} files",
            effect="another rank recorded more windows; sums over ranks aren't of the same steps, "
            "and waits for this rank are unknown outside its own",
        )
        noted.append(_with_problem(trace, note) if note.count else trace)
    return noted


def _open_traces(files: Iterable[Path], *, note_rank: bool, cache: bool) -> list[Trace]:
    """Open the traces among some files; the others are named as a problem."""
    traces: list[Trace] = []
    others: list[tuple[Path, NotATraceError]] = []
    for file in files:
        try:
            traces.append(_with_rank(open_file(file, cache=cache), file, note=note_rank))
        except NotATraceError as error:
            others.append((file, error))
    if not traces and others:
        raise others[0][1]
    traces, beside = _of_one_format(traces)
    skipped = [(file, _reason(file, str(error))) for file, error in others]
    skipped += [(t.meta.path, f"a recording of the kind {t.meta.format}") for t in beside]
    if skipped:
        named = [f"{file.name} ({why})" for file, why in skipped[:_NAMED_FILES]]
        more = len(skipped) - len(named)
        note = Problem(
            code="other_files",
            count=len(skipped),
            first_example=", ".join(named) + (f" and {more} more" if more else ""),
            effect="these files of the folder are no traces of the kind that the others are, "
            "and were passed over; open them one by one",
        )
        traces[0] = _with_problem(traces[0], note)
    return traces


def _reason(file: Path, sentence: str) -> str:
    """Shorten an error's sentence to what it says of the file."""
    return sentence.replace(f"{file} ", "", 1).removesuffix(".")


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
    names = _RUN_NAMES if (folder / RUN_FILE).exists() else _TRACE_NAMES
    files = sorted({f for pattern in names for f in folder.glob(pattern)})
    files = [f for f in files if f.name not in _SIDE_FILES and ".memory." not in f.name]
    if not files and (folder / RUN_FILE).exists():
        raise InputError(f"The run {folder} holds no trace; its log.txt says why it failed.")
    if not files:
        raise InputError(
            f"{folder} holds no trace: none of its files is named {' or '.join(_TRACE_NAMES)}."
        )
    return files


def _with_rank(trace: Trace, path: Path, *, note: bool) -> Trace:
    """Take the rank from the file's name when the recording doesn't say it.

    Noted as a problem, but in a run folder, whose files the recorder named itself.
    """
    named = _RANK.search(path.name)
    if trace.meta.rank is not None or not named or len(named[1]) > _RANK_DIGITS:
        return trace
    ranked = replace(trace, meta=replace(trace.meta, rank=int(named[1])))
    return _with_problem(ranked, _rank_from_name(path)) if note else ranked


def _rank_from_name(path: Path) -> Problem:
    return Problem(
        code="rank_from_name",
        count=1,
        first_example=path.name,
        effect="the recording doesn't say its rank; it is the one in the file's name",
    )
