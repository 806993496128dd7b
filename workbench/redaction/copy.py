"""`redact`: the copy, its key, and what was found when both were compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from workbench.errors import InputError, UsageError
from workbench.redaction import about, beside, proof, tables
from workbench.redaction import key as keys
from workbench.redaction.key import Key
from workbench.redaction.pseudonyms import Names
from workbench.trace import atomic, problems, store
from workbench.trace.core import HOST_STEPS, Job, Trace
from workbench.trace.open import open_source
from workbench.trace.write import chrome

REDACTED = problems.redacted()
_EVENTS = "pytorch-profiler"
"""The format of which a copy is again the profiler's JSON; of any other it is a folder of Parquet,
since its readers differ in what they take names for."""
_KEY_SUFFIX = ".key.json"
_KINDS = {
    "Module": "modules",
    "about": "descriptions of groups",
    "call": "runtime calls",
    "counter": "counters",
    "device": "devices",
    "domain": "domains",
    "example": "examples of problems",
    "file": "files",
    "group": "process groups",
    "kernel": "kernels",
    "note": "notes of run.json",
    "op": "operators",
    "range": "ranges",
    "text": "sentences",
    "thread": "threads",
    "u": "units",
    "uuid": "uuids",
    "value": "values",
}
"""Kinds of names, as a person calls them."""


@dataclass(frozen=True)
class Redaction:
    """What was written, and how it compares with the original."""

    path: Path
    key: Path
    proof: pl.DataFrame
    """A row for each analysis and table: `name kind rows same difference`."""
    renamed: dict[str, int]
    """By kind of name, how many different ones have a pseudonym."""
    left_out: tuple[str, ...]
    """What of the source did not go along, in words."""

    @property
    def is_same(self) -> bool:
        """Say whether every analysis tells the same of both."""
        return bool(self.proof["same"].all())

    def about(self, *, brief: bool = False) -> dict[str, Any]:
        """Return what stands beside the proof; `brief`: in words, for a person."""
        differ = self.proof.filter(~pl.col("same"))["name"].to_list()
        said: dict[str, Any] = {
            "copy": str(self.path),
            "key": str(self.key),
            "renamed": self.renamed,
            "left_out": list(self.left_out),
            "kept": "times, also when it was recorded; sizes, shapes, numbers among arguments; "
            "ids, also of processes and threads; public names",
            "differ": differ,
        }
        if not brief:
            return said
        counts = ", ".join(f"{n} {_KINDS.get(k, k)}" for k, n in self.renamed.items())
        said |= {
            "key": f"{self.key} (keep it to yourself)",
            "renamed": counts or "nothing",
            "left out": "; ".join(said.pop("left_out")) or "nothing",
            "differ": ", ".join(differ) or "none",
        }
        return said


def redact(source: str | Path, new: str | Path, *, key: str | Path | None = None) -> Redaction:
    """Write a copy of a recording without the user's own names, and compare the two.

    A recording of PyTorch's profiler becomes FILE.json[.gz], or a folder of such; one of another
    tool a folder of Parquet. Times, sizes, shapes, ids and structure stay; Python frames other than
    calls of modules are left out; names that no list of public ones has get a pseudonym, the same
    in every rank and file. The key that maps back is written beside the copy, for its owner's eyes
    alone; an existing `key` is taken for that of an earlier copy, and extended.

    Needs the memory of opening the source twice, and of its Python frames once.

    Raises
    ------
    UsageError
        Something lies at `new` or at the key already, or one of them would lie in the other.
    InputError
        The source can't be read, or the copy can't be written.
    """
    old, target = Path(source), Path(new)
    secret = Path(key) if key is not None else target.with_name(target.name + _KEY_SUFFIX)
    _check_places(old, target, secret, is_given=key is not None)
    is_old = secret.exists()
    original = open_source(old)
    on_host = any((t.activities["source"] == "host").any() for t in original.ranks)
    names = Names(keys.read(secret) if is_old else Key(), on_host=on_host)
    _check_form(original, old, target)
    ordinals = about.thread_ids(original.ranks)
    copies = [_copy(trace, ordinals, names) for trace in original.ranks]
    holds_traces = original.ranks[0].meta.path.parent == old
    files = beside.copied(original, names) if holds_traces else {}
    with keys.kept(names.key, secret, is_old=is_old):
        _write(copies, files, target, is_job=isinstance(original, Job))
    found = proof.compare(original, open_source(target, cache=False), names.key, REDACTED.code)
    return Redaction(
        path=target,
        key=secret,
        proof=found,
        renamed={kind: len(held) for kind, held in sorted(names.renamed.items()) if held},
        left_out=tuple(_left_out(original, old)),
    )


def _check_places(source: Path, new: Path, secret: Path, *, is_given: bool) -> None:
    if not source.exists():
        raise InputError(f"There is no file or folder {source}; check the path.")
    if new.exists() or new.is_symlink():
        raise UsageError(f"{new} exists already; give another name.")
    if not new.parent.is_dir():
        raise UsageError(f"There is no folder {new.parent} to write {new.name} into; make it.")
    whole, at = source.resolve(), new.resolve()
    if source.is_dir() and at.is_relative_to(whole):
        raise UsageError(f"{new} lies in {source}, which it is a copy of; name another place.")
    if secret.resolve().is_relative_to(at):
        raise UsageError(f"The key {secret} would lie in the copy itself; name another place.")
    if not is_given and (secret.exists() or secret.is_symlink()):
        raise UsageError(
            f"{secret} exists already; give it with --key to use the same pseudonyms again, or "
            "name another file with --key."
        )
    if not secret.parent.is_dir():
        raise UsageError(f"There is no folder {secret.parent} to write the key into; make it.")


def _check_form(original: Trace | Job, source: Path, new: Path) -> None:
    is_file = new.name.endswith(chrome.SUFFIXES)
    if source.is_file() and beside.belongs_to_run(source):
        raise UsageError(
            f"{source} belongs to the run {source.parent}, whose other files tell more of it; "
            "redact the folder."
        )
    if is_file and not _is_events(original):
        form = original.ranks[0].meta.format
        raise UsageError(
            f"A copy of a recording of the kind {form} is a folder of Parquet, and {new} is named "
            "as a file; name a folder."
        )
    if is_file and source.is_dir():
        raise UsageError(f"{source} is a folder, and so is its copy; name a folder, not {new}.")
    if source.is_file() and not is_file and _is_events(original):
        raise UsageError(f"{source} is one file, and so is its copy; name a FILE.json.gz.")


def _is_events(original: Trace | Job) -> bool:
    return all(t.meta.format == _EVENTS for t in original.ranks)


def _copy(trace: Trace, ordinals: Mapping[str, int], names: Names) -> Trace:
    renamed, frames = tables.redacted(trace, names)
    before = renamed["problems"].filter(pl.col("code") != REDACTED.code)
    renamed["problems"] = pl.concat([before, problems.table([REDACTED])])
    host_steps = trace.host_steps.select(*HOST_STEPS)
    meta = about.redacted(trace.meta, ordinals, names)
    return Trace(meta, renamed, lambda: frames, host_steps)


def _write(
    copies: Sequence[Trace], files: Mapping[str, bytes], target: Path, *, is_job: bool
) -> None:
    if target.name.endswith(chrome.SUFFIXES):
        chrome.write(copies[0], target, with_problems=True)
        return
    try:
        with atomic.new_folder(target) as folder:
            for name, content in files.items():
                (folder / name).write_bytes(content)
            for trace in copies:
                _write_rank(trace, folder, alone=not is_job)
    except store.UNWRITABLE as error:
        raise InputError(f"{target} can't be written: {atomic.reason(error)}.") from None


def _write_rank(trace: Trace, folder: Path, *, alone: bool) -> None:
    name = "" if trace.meta.rank is None else f"rank{trace.meta.rank}"
    if trace.meta.format == _EVENTS:
        file = ".".join(p for p in (name, "trace.json.gz") if p)
        chrome.write(trace, folder / file, with_problems=True)
        return
    place = folder if alone else folder / name
    place.mkdir(exist_ok=True)
    store.write_tables(place, trace.meta, store.whole(trace), "")


def _left_out(original: Trace | Job, source: Path) -> Iterator[str]:
    """Say what of a source is not in its copy."""
    plain = sum(t.frames.height - t.frames["module"].count() for t in original.ranks)
    if plain:
        yield f"{plain:,} Python calls other than of modules"
    if not source.is_dir() or store.is_stored(source):
        return
    taken = {t.meta.path.name for t in original.ranks}
    taken |= {w.path.name for t in original.ranks for w in t.meta.windows} | set(beside.FILES)
    for other in sorted(f for f in source.iterdir() if f.name not in taken):
        yield f"the {'folder' if other.is_dir() else 'file'} {other.name}"
