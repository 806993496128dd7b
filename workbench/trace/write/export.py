"""What `export` and `trim` do: a source to one file, or to a folder with one entry a rank."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from workbench.errors import InputError, UsageError
from workbench.trace import atomic, store
from workbench.trace.core import Job, Trace
from workbench.trace.write import chrome
from workbench.trace.write.part import Part

CHROME, PARQUET = "chrome", "parquet"
FORMS = (CHROME, PARQUET)
_PAGE = "`workbench report` writes a page"
_TABLE = "`workbench show … -o` writes a table"
_PICTURE = "`wb.save_view` writes a picture"
_TRACE = "a trace for Perfetto ends in .json or .json.gz"
OTHERS = {
    ".html": _PAGE, ".htm": _PAGE, ".csv": _TABLE, ".xlsx": _TABLE, ".png": _PICTURE,
    ".svg": _PICTURE, ".gz": _TRACE, ".zip": _TRACE,
}  # fmt: skip
"""Suffixes of files that are not written here, and what is."""
Cut = Callable[[Trace], Part]


def export(
    source: Trace | Job,
    out: Path,
    *,
    form: str | None = None,
    cut: Cut | None = None,
    force: bool = False,
) -> Path:
    """Write a source as Chrome JSON or as Parquet; return what was written.

    Without a form, a name that ends in .json or .json.gz says Chrome JSON and any other a folder of
    Parquet. A `Job` becomes a folder: `rank0.trace.json.gz`, … or `rank0/`, …. A cut is Chrome
    JSON, whose reader finds the steps of what is left.

    Raises
    ------
    UsageError
        An unknown form, one that doesn't fit the name, no form and the name of a file of another
        kind, or something lies at `out` already.
    InputError
        It can't be written.
    """
    if not (form or cut) and out.suffix in OTHERS and not out.name.endswith(chrome.SUFFIXES):
        raise UsageError(
            f"{out} would be a folder of Parquet: {OTHERS[out.suffix]}; give --format parquet if a "
            "folder of that name is meant."
        )
    form = form or (CHROME if out.name.endswith(chrome.SUFFIXES) or cut else PARQUET)
    if form not in FORMS:
        raise UsageError(f"There is no form {form!r}; known: {' and '.join(FORMS)}.")
    if form == PARQUET and (cut or out.name.endswith(chrome.SUFFIXES)):
        what = "A part of a trace" if cut else f"{out}"
        raise UsageError(f"{what} is written as Chrome JSON, not as Parquet; leave the form out.")
    if isinstance(source, Job) and len(source.ranks) > 1:
        return _folder_of_ranks(source, out, form, cut, force=force)
    (trace,) = source.ranks
    if form == PARQUET:
        return store.save(trace, out, frames=True, force=force)
    return chrome.write(trace, out, part=cut(trace) if cut else None, force=force)


def _folder_of_ranks(job: Job, out: Path, form: str, cut: Cut | None, *, force: bool) -> Path:
    if out.name.endswith(chrome.SUFFIXES):
        raise UsageError(
            f"{out} is one file, and there are {len(job.ranks)} ranks; name a folder, or pick one "
            "with --rank."
        )
    store.check_free(out, force=force)
    try:
        with atomic.new_folder(out, replace_old=force) as part:
            for trace in job.ranks:
                _write_rank(trace, part, form, cut)
    except OSError as error:
        raise InputError(f"{out} can't be written: {atomic.reason(error)}.") from None
    return out


def _write_rank(trace: Trace, folder: Path, form: str, cut: Cut | None) -> None:
    name = f"rank{trace.meta.rank}"
    if form == PARQUET:
        store.save(trace, folder / name, frames=True)
    else:
        chrome.write(trace, folder / f"{name}.trace.json.gz", part=cut(trace) if cut else None)
